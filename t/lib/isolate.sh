#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: run a test file in namespaces of its own, so that files run side by side
# Usage:   isolate.sh FILE [ARGUMENT]...
#   FILE         a program, or a command such as bats
#   -h, --help   this help
#   The file has process IDs, network, System V IPC, /run, /etc and root's home of its own.
#   Ports, namespace names and lock files of two files cannot collide, and every process
#   that the file starts ends with it. Only cgroups are shared; their names contain
#   VL_TEST_ID or VL_BED. Packages can be downloaded through the outer network,
#   /run/vl-outer-net. Without root the file runs without namespaces.
# Exit:    the status of FILE; 2 usage

set -euo pipefail

# Changes in the folder are visible to this test file only, and lost at its end.
isolate_folder() { # <folder>
  local layer=/run/isolated$1
  mkdir -p "$layer/upper" "$layer/work"
  mount -t overlay -o "lowerdir=$1,upperdir=$layer/upper,workdir=$layer/work" overlay "$1" ||
    echo "# no overlay file system: $1 is shared with other test files"
}

# Runs as the first process of the new namespaces.
isolate_main() { # <file of the outer network namespace> <source tree> <command>...
  local outer_net=$1 tree
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p /run/lock
  : >/run/vl-outer-net
  mount --bind "$outer_net" /run/vl-outer-net
  mount -t proc proc /proc
  isolate_folder /etc
  # The source tree is not covered if it is in root's home.
  exec {tree}<"$2"
  isolate_folder "$(getent passwd 0 | cut -d : -f 6)"
  mount --no-canonicalize --bind "/proc/self/fd/$tree" "$2"
  exec {tree}<&-
  ip link set lo up
  trap : TERM INT               # the command gets the signal too, and its status is reported
  cd "$PWD"                     # now below the new mounts
  shift 2
  "$@" &
  wait "$!"
}

case ${1-} in
  -h | --help) sed -n '3,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
  '' | -*) printf "isolate.sh: missing program\nTry 'isolate.sh --help'.\n" >&2; exit 2 ;;
esac
if ((EUID != 0)) || [[ -n ${VL_TEST_ID-} ]] || ! unshare --mount --net --pid --ipc --fork true 2>/dev/null; then
  exec "$@"
fi
export VL_TEST_ID=$$ VL_BED=vhostlimit-testbed-$$
export -f isolate_main isolate_folder
exec {outer}</proc/self/ns/net
exec unshare --mount --propagation private --net --pid --ipc --fork --kill-child \
  bash -euc 'isolate_main "$@"' isolate "/proc/$$/fd/$outer" "$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)" "$@"
