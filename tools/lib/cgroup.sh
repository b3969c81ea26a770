# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Control groups that a server of ours may leave behind.

cgroup_dirs() { # <path>: where it exists, in every hierarchy
  local root
  while read -r root; do
    [[ ! -d $root$1 ]] || printf '%s\n' "$root$1"
  done < <(findmnt -rn -o TARGET -t cgroup,cgroup2)
}

cgroup_remove() { # <path>: the group and those below, once nobody is in them
  local dir
  while read -r dir; do
    wait_until 10 cgroup_rmdir "$dir" ||
      say "control group $dir could not be removed: a process is still in it"
  done < <(cgroup_dirs "$1")
}

cgroup_rmdir() { find "$1" -depth -type d -exec rmdir {} + 2>/dev/null; }   # <dir>

cgroup_enter() { # <path>: this very shell, in every hierarchy that has the group
  local dir
  while read -r dir; do
    echo "$BASHPID" >"$dir/cgroup.procs"
  done < <(cgroup_dirs "$1")
}

cgroup_usage_file() { # <path>: where the kernel tells its CPU time
  local dir
  while read -r dir; do
    if [[ -r $dir/cpuacct.usage ]]; then printf '%s\n' "$dir/cpuacct.usage"; return; fi
  done < <(cgroup_dirs "$1")
  while read -r dir; do
    if [[ -r $dir/cpu.stat ]]; then printf '%s\n' "$dir/cpu.stat"; return; fi
  done < <(cgroup_dirs "$1")
}

cgroup_used_us() { # <such a file>: nothing where there is none
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
  case $(findmnt -rn -o FSTYPE -t cgroup,cgroup2 | sort -u | paste -sd+ -) in
    cgroup) echo v1 ;;
    cgroup2) echo v2 ;;
    cgroup+cgroup2) echo hybrid ;;
    *) echo none ;;
  esac
}
