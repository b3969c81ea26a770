#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: load that changes, for long: memory, descriptors, threads and counts of
#          Apache with the module have to stay where they were
# Usage:   soak.sh [-h] [-s SECONDS]
#   -s SECONDS   how long (3600)
#   It is t/880-robust-soak.bats, which needs what the tests need and the module
#   built (tools/check.sh does both).
# Exit:    0 they did; 1 they did not; 2 usage; 77 cannot run here (no bats)

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$here/lib/common.sh"

main() {
  local opt seconds=3600
  while getopts ':hs:' opt; do
    case $opt in
      h) usage 0 ;;
      s) seconds=$OPTARG ;;
      :) misuse "-$OPTARG needs a value" ;;
      *) misuse "unknown option -$OPTARG" ;;
    esac
  done
  shift $((OPTIND - 1))
  (($# == 0)) || misuse "there are no arguments"
  [[ $seconds =~ ^[1-9][0-9]{0,5}$ ]] || misuse "-s: '$seconds' is not a whole number from 1 to 999999"
  need bats
  VL_SOAK=$seconds exec bats --show-output-of-passing-tests "$(in_tree t/880-robust-soak.bats)"
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
