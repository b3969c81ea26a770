#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: print what siege reported, as one table
# Usage:   siege-summary.sh [OPTION]... FILE...
#   FILE         the output of one run of siege 3 or 4, on this or another machine: JSON
#                (siege -j) or text, with any other output of siege
#   --json       an array with an object for each file instead; times in seconds
#   -h, --help   this help
#   --version    the version
#   A transaction is a response below 400; everything else is a failure. Availability is
#   the percentage of transactions, concurrency the mean number of users served.
# Exit:    0 printed; 1 a file has no complete summary, or more than one; 2 usage; 77
#          cannot run: jq is missing

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/siege.sh"
. "$here/lib/report.sh"

summaries() { # <file>...: an object a line
  local file summary
  for file; do
    need_readable "$file"
    summary=$(siege_summary "$file") || return
    jq -c --arg file "$file" '{ file: $file } + .' <<<"$summary"
  done
}

main() {
  local objects
  parse_options '' json "$@"
  set -- "${words[@]}"
  (($#)) || misuse "missing file: the output of a run of siege"
  need jq
  objects=$(summaries "$@")
  if [[ -v given[--json] ]]; then jq -s . <<<"$objects"; else lib_jq report siege_table -rs <<<"$objects" | report_cells -4 12; fi
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
