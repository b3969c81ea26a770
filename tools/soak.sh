#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: load that changes, for long: memory, descriptors, threads and counts of
#          Apache with the module have to stay where they were
# Usage:   soak.sh [-s SECONDS]
#   -s SECONDS   how long (3600)
#   -h, --help   this help
#   --version    the version
#   It is t/880-robust-soak.bats, which needs what the tests need and the module
#   built (tools/check.sh does both).
# Exit:    0 they did; 1 they did not; 2 usage; 77 cannot run here (no bats)

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$here/lib/common.sh"

main() {
  local seconds=3600
  parse_options s: '' "$@"
  set -- "${words[@]}"
  while [[ $1 != -- ]]; do
    case $1 in -s) seconds=$2; shift ;; esac
    shift
  done
  shift
  (($# == 0)) || misuse "unexpected argument '$1'"
  [[ $seconds =~ ^[1-9][0-9]{0,5}$ ]] || misuse "-s: '$seconds' is not a whole number from 1 to 999999"
  need bats
  VL_SOAK=$seconds exec bats --show-output-of-passing-tests "$(in_tree t/880-robust-soak.bats)"
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
