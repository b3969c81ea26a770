#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: run a command with cgroup v1 only, or cgroup v2 only, on a machine that has
#          both, in a mount namespace of its own
# Usage:   cgroups.sh v1|v2 COMMAND [ARGUMENT]...
#   v1           the v2 hierarchy is not mounted
#   v2           no v1 hierarchy is mounted, and the v2 hierarchy is /sys/fs/cgroup. It
#                has only the controllers that no v1 hierarchy has; tools/v2.sh has all
#   -h, --help   this help
#   --version    the version
#   Example: cgroups.sh v1 prove t/3* t/4* t/5*
# Exit:    the status of COMMAND; 2 usage; 77 cannot run: not root, or that version is
#          not mounted

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/cgroup.sh"

leave_v1() {
  local where
  while where=$(cgroup_roots cgroup2 | tail -n 1) && [[ $where ]]; do umount -l "$where"; done
}

leave_v2() {
  local tree
  tree=$(mktemp -d)
  mount --bind "$(cgroup_roots cgroup2 | tail -n 1)" "$tree"
  while mountpoint -q /sys/fs/cgroup; do umount -R -l /sys/fs/cgroup; done
  mount --bind "$tree" /sys/fs/cgroup
  umount "$tree"
  rmdir "$tree"
}

main() {
  parse_options + '' "$@"
  set -- "${words[@]}"
  (($#)) || misuse "missing argument: v1 or v2"
  [[ $1 =~ ^v[12]$ ]] || misuse "'$1' is not v1 or v2"
  (($# > 1)) || misuse "missing command"
  need_root
  [[ $1 == v1 || $(cgroup_roots cgroup2) ]] || cannot "no cgroup v2 hierarchy is mounted on this machine"
  [[ $1 == v2 || $(cgroup_roots cgroup) ]] || cannot "no cgroup v1 hierarchy is mounted on this machine"
  # shellcheck disable=SC2016  # for the shell inside
  exec unshare -m -- bash -c '. "$1"; "leave_$2"; exec "${@:3}"' cgroups.sh "${BASH_SOURCE[0]}" "$@"
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
