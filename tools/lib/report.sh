# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# result.json as text: the machine, a table for each page, the rows.

report_print() { # <result.json>
  local page
  report_jq "$1" facts
  while read -r page; do
    printf '\n'
    report_jq "$1" table "$page" | report_table
  done < <(report_jq "$1" pages)
  printf '\n'
  report_jq "$1" rows | report_rows
  report_jq "$1" published | report_cells '%-62s' '%12s' '%12s' '%18s' '%8s'
  report_jq "$1" notes
}

report_jq() { # <result.json> <facts|pages|table|rows|published|notes> [page]
  jq -r --arg page "${3-}" "include \"report\"; $2" -L "$(in_tree tools/lib)" "$1"
}

# Rows of cells set apart by \x1f, which may be empty: the label left, the rest right.
report_table() {
  report_cells '%-30s' '%16s'
}

report_rows() { # name; value, spread, bar, goal, judgement
  report_cells '%-58s' '%10s' '%18s' '%10s' '%10s' '  %s'
}

report_cells() { # <format of each cell>...; the last one is for the rest too
  local -a cells
  local i line text
  while IFS=$'\x1f' read -ra cells; do
    line=
    for i in "${!cells[@]}"; do
      # shellcheck disable=SC2059  # formats are what was given
      printf -v text "${@:$((i + 1 < $# ? i + 1 : $#)):1}" "${cells[i]}"
      line+=$text
    done
    printf '%s\n' "${line%"${line##*[! ]}"}"
  done
}
