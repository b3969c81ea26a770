#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: print the averages of a sar record: CPU, memory, run queue, load and pressure
# Usage:   sar-summary.sh [OPTION]... FILE
#   FILE         what `sar -o FILE` or sadc wrote, on this or another machine
#   -P           each CPU too
#   --json       one JSON object instead of tables; kB, percent, seconds, UTC
#   -h, --help   this help
#   --version    the version
#   user, nice, system, iowait, steal and idle are percent of the CPU time. Pressure is
#   the percent of the time in which some task, or all runnable tasks, waited. Values
#   that the record does not have are left out. A record that sadf cannot read is an error
#   whose message has the remedy.
# Exit:    0 printed; 1 FILE is not a complete record that sadf can read; 2 usage; 77
#          cannot run: sadf or jq is missing

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/sar.sh"
. "$here/lib/report.sh"

main() {
  local summary
  parse_options P json "$@"
  set -- "${words[@]}"
  (($# == 1)) || misuse "one file, not $#"
  need sadf jq
  need_readable "$1"
  # shellcheck disable=SC2016  # jq's own
  summary=$(sar_query "$1" 'summary($each)' -c --argjson each "$([[ -v given[-P] ]] && echo true || echo false)")
  [[ ! -v given[--json] ]] || { printf '%s\n' "$summary"; return; }
  lib_jq sar-text heading -r <<<"$summary"
  printf '\n'
  lib_jq sar-text tables -r <<<"$summary" | report_cells -14 10
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
