# SPDX-License-Identifier: Apache-2.0
#
# Cgroups in tests, whatever their version.

# shellcheck source-path=SCRIPTDIR source=../../tools/lib/cgroup.sh
. "$TOP/tools/lib/cgroup.sh"

# Prints the root of the hierarchy with the cpu controller: v1's cpu or v2.
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

cgroup_exists() { [[ -n $(cgroup_dirs "$1") ]]; }  # <path>
cgroup_gone()   { [[ -z $(cgroup_dirs "$1") ]]; }  # <path>

# Prints the first of these files of the group that a hierarchy has.
cgroup_value() { # <path> <file name>...
  local file
  file=$(cgroup_file "$@") || fail "group $1 has none of these files: ${*:2}" || return
  cat "$file"
}

# Is there a hierarchy with the controller, under its v1 or v2 name?
cgroup_has() { # <name>...
  local name
  for name; do
    grep -qE "^[^ ]+ [^ ]+ cgroup .*\b$name\b" /proc/self/mounts && return
    grep -qsw "$name" /sys/fs/cgroup/cgroup.controllers && return
  done
  echo "no cgroup controller $1"
  return 1
}

# Runs the command in the group, in every hierarchy that has it.
in_cgroup() { cgroup_enter "$1" && exec "${@:2}"; }  # <path> <command>...
