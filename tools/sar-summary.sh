#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: the averages of a record of sar: CPU and memory as sar prints them, run
#          queue, load and pressure
# Usage:   sar-summary.sh [OPTION]... FILE
#   FILE     what sar -o FILE or sadc wrote, on this machine or another one
#   -P       each CPU too
#   --json   for programs: one JSON object; kB, percent, seconds, UTC
#   -h, --help   this help
#   --version    the version
#   user, nice, system, iowait, steal and idle are percent of the CPU's time;
#   pressure is the percent of the time in which some task, or all that could
#   run, waited for it. What the record does not have is left out.
#   A record of another version of sysstat may have to be converted before:
#   sadf -c FILE >NEW
# Exit:    0 printed; 1 no complete record that sadf can read; 2 usage; 77 cannot
#          run here (no sadf, no jq)

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$here/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/sar.sh
. "$here/lib/sar.sh"
# shellcheck source-path=SCRIPTDIR source=lib/report.sh
. "$here/lib/report.sh"

declare -A option=([each]=false [json]=0)

print_text() { # <summary>
  sar_jq heading -r <<<"$1"
  printf '\n'
  sar_jq tables -r <<<"$1" | report_cells -14 10
}

main() {
  local summary
  parse_options P json "$@"
  set -- "${words[@]}"
  while [[ $1 != -- ]]; do
    case $1 in
      -P) option[each]=true ;;
      --json) option[json]=1 ;;
    esac
    shift
  done
  shift
  (($# == 1)) || misuse "one file, not $#"
  need sadf jq
  need_readable "$1"
  # shellcheck disable=SC2016  # jq's own
  summary=$(sar_query "$1" 'summary($each)' -c --argjson each "${option[each]}")
  if ((option[json])); then printf '%s\n' "$summary"; else print_text "$summary"; fi
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
