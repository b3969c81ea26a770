#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: run a changing load for a long time; fail if memory, descriptors, threads or
#          counters of Apache with the module keep growing
# Usage:   soak.sh [-s SECONDS]
#   -s SECONDS   how long (3600)
#   -h, --help   this help
#   --version    the version
#   Runs t/880-robust-soak.bats, which needs the test dependencies and the built module
#   (tools/check.sh installs and builds them).
# Exit:    0 nothing grew; 1 something grew; 2 usage; 77 cannot run: bats is missing

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
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
