# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Prints two result folders side by side.  compare.jq makes the rows.

compare_print() { # <folder A> <folder B>
  local folder
  for folder; do compare_check "$folder"; done
  compare_same_test "$@"
  compare_jq "$@" facts_of_both
  compare_jq "$@" comparison | report_cells -72 10 18 10 18 7 -1
  compare_jq "$@" only_in_one
}

compare_jq() { # <folder A> <folder B> <filter>
  lib_jq compare "$3" -sr "$1/result.json" "$2/result.json"
}

compare_check() { # <folder>
  local schema
  [[ -d $1 ]] || die "$1 is not a folder"
  [[ -f $1/result.json && -r $1/result.json ]] || die "$1 has no result.json: it is not a result folder of bench.sh, or nothing was measured"
  jq -se 'length == 1' "$1/result.json" >/dev/null 2>&1 || die "$1/result.json is not complete: it is truncated, or is not JSON"
  schema=$(jq -r '.schema? | numbers' "$1/result.json")
  [[ -n $schema ]] || die "$1/result.json is not a result of bench.sh"
  ((schema == 2)) || die "$1/result.json has schema $schema; this bench.sh reads schema 2"
  lib_jq compare 'length == 1 and (.[0] | usable)' -se "$1/result.json" >/dev/null 2>&1 ||
    die "$1/result.json lacks parts of a result of bench.sh"
}

compare_same_test() { # <folder A> <folder B>
  local tests
  tests=$(compare_jq "$@" 'map(.test) | join(" and ")')
  [[ ${tests% and *} == "${tests#* and }" ]] || die "the results are of different tests: $tests"
}
