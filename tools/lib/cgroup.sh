# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Cgroup hierarchies as the kernel shows them, v1 and v2; used by the tools and, through
# t/lib/cgroup.bash, by the tests.  A path is that of a group, as in /vhost/site1.test.

# Prints the root of each mounted hierarchy, the newest mount last.
cgroup_roots() { # [cgroup | cgroup2]: of this version only
  local root type wanted="^${1-cgroup2?}\$"
  while read -r _ root type _; do
    [[ ! $type =~ $wanted ]] || printf '%s\n' "$root"
  done <<<"$(</proc/self/mounts)"
}

# Prints the folder of the group in each hierarchy that has it.
cgroup_dirs() { # <path>
  local root
  while read -r root; do
    [[ ! -d $root$1 ]] || printf '%s\n' "$root$1"
  done < <(cgroup_roots)
}

# Removes the group and those below it, the deepest first.  Groups with processes stay.
cgroup_remove() { # <path>
  local dir status=0
  while read -r dir; do
    cgroup_rmdir "$dir" || status=1
  done < <(cgroup_dirs "$1")
  return "$status"
}

cgroup_rmdir() { find "$1" -depth -type d -exec rmdir {} + 2>/dev/null; }   # <dir>

# Moves the calling shell into the group, in every hierarchy that has it.
cgroup_enter() { # <path>
  local dir
  while read -r dir; do
    echo "$BASHPID" >"$dir/cgroup.procs"
  done < <(cgroup_dirs "$1")
}

# Prints the path of the first of these files that a hierarchy has: their names differ
# between v1 and v2.  Returns 1 if there is none.
cgroup_file() { # <path> <file name>...
  local dir name
  for name in "${@:2}"; do
    while read -r dir; do
      [[ ! -r $dir/$name ]] || { printf '%s\n' "$dir/$name"; return; }
    done < <(cgroup_dirs "$1")
  done
  return 1
}

# Prints the CPU time of a group, µs, from its file cpuacct.usage or cpu.stat; nothing
# if the file cannot be read.
cgroup_used_us() { # <file>
  local key value
  while read -r key value; do
    case $key in
      usage_usec) printf '%s\n' "$value" ;;
      *[!0-9]*) ;;
      *) [[ -n $value ]] || printf '%s\n' "$((key / 1000))" ;;
    esac
  done 2>/dev/null <"$1"
}

cgroup_kind() { # v1, v2, hybrid or none
  case $(cgroup_roots cgroup):$(cgroup_roots cgroup2) in
    ?*:?*) echo hybrid ;;
    ?*:) echo v1 ;;
    :?*) echo v2 ;;
    *) echo none ;;
  esac
}
