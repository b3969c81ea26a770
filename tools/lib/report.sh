# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# result.json as text: the machine, a table for each page, the conclusion.

report_print() { # <result.json>
  local page
  report_jq "$1" facts
  while read -r page; do
    printf '\n'
    report_jq "$1" rows "$page" | report_table
  done < <(jq -r '[.runs[].page] | unique_by(. != "static")[]' "$1")
  printf '\n'
  report_jq "$1" conclusion
}

report_jq() { # <result.json> <facts|rows|conclusion> [page]
  jq -r --arg page "${3-}" "include \"report\"; $2" -L "$(in_tree tools/lib)" "$1"
}

report_table() { # rows of cells set apart by \x1f, which may be empty: the label left, the rest right
  local -a cells
  local cell
  while IFS=$'\x1f' read -ra cells; do
    printf '%-30s' "${cells[0]}"
    for cell in "${cells[@]:1}"; do
      printf '%16s' "$cell"
    done
    printf '\n'
  done
}
