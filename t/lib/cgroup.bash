# SPDX-License-Identifier: Apache-2.0
#
# Cgroup hierarchies as the kernel shows them, whatever their version.

# The root of each mounted hierarchy, one a line.
cgroup_roots() { awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/self/mounts; }

# The root of the hierarchy where CPU time can be shared: v1's cpu or v2.
cgroup_cpu_root() {
  awk '$3 == "cgroup" && $4 ~ /(^|,)cpu(,|$)/ { v1 = $2 }
       $3 == "cgroup2" { v2 = $2 }
       END { if (v1 v2 == "") exit 1; print v1 ? v1 : v2 }' /proc/self/mounts
}

cgroup_usable() {
  local root probe
  root=$(cgroup_cpu_root) || { echo "no cgroup hierarchy with cpu"; return 1; }
  probe=$root/vl-probe-$$
  mkdir "$probe" 2>/dev/null || { echo "cannot make a cgroup in $root"; return 1; }
  rmdir "$probe"
}

# Where a cgroup path exists: one directory for each hierarchy that has it.
cgroup_dirs() { # <path>
  local root
  cgroup_roots | while read -r root; do
    if [[ -d $root$1 ]]; then printf '%s\n' "$root$1"; fi
  done
}

cgroup_exists() { [[ -n $(cgroup_dirs "$1") ]]; }  # <path>
cgroup_gone()   { [[ -z $(cgroup_dirs "$1") ]]; }  # <path>

# Take away what a failed test left; the deepest group goes first.
cgroup_remove() { # <path>
  local dir
  cgroup_dirs "$1" | while read -r dir; do
    find "$dir" -depth -type d -exec rmdir {} + 2>/dev/null || :
  done
}

# What a file of the group says; the first of the names that there is in any
# hierarchy: v1's and v2's names differ.
cgroup_says() { # <path> <file name>...
  local path=$1 name dir
  shift
  for name; do
    while read -r dir; do
      if [[ -r $dir/$name ]]; then cat "$dir/$name"; return; fi
    done < <(cgroup_dirs "$path")
  done
  fail "group $path has no $*"
}

# The hierarchies know the controller, under its v1 or its v2 name.
cgroup_has() { # <name>...
  local name
  for name; do
    grep -qE "^[^ ]+ [^ ]+ cgroup .*\b$name\b" /proc/self/mounts && return
    grep -qsw "$name" /sys/fs/cgroup/cgroup.controllers && return
  done
  echo "no cgroup controller $1"
  return 1
}

# Runs in the group, in every hierarchy that has it.
in_cgroup() { # <path> <command>...
  local dir
  while read -r dir; do echo "$BASHPID" >"$dir/cgroup.procs"; done < <(cgroup_dirs "$1")
  exec "${@:2}"
}
