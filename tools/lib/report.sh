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
  report_beside "$1"
  report_jq "$1" rows | report_rows
  report_jq "$1" published | report_cells -62 10 10 16 6
  report_jq "$1" notes
}

report_beside() { # <result.json>
  [[ -n $(report_jq "$1" beside) ]] || return 0
  report_jq "$1" beside | report_cells -44 16
  report_jq "$1" interval_notes
  printf '\n'
}

# The targets side by side, for documents; no file if the test has no such table.
report_markdown() { # <result.json> <file>
  report_jq "$1" markdown >"$2"
  [[ -s $2 ]] || rm -f "$2"
}

report_jq() { # <result.json> <facts|pages|table|beside|interval_notes|markdown|rows|published|notes> [page]
  lib_jq report "$2" -r --arg page "${3-}" "$1"
}

# Rows of cells separated by \x1f, which may be empty: labels on the left.
report_table() {
  report_cells -30 14
}

report_rows() { # name, value, range, bar, goal, verdict
  report_cells -58 8 16 8 8 -1
}

# A column has at least the given width; two spaces separate columns.  awk and not
# column(1), which no package of a minimal Debian has.
report_cells() { # <width, below zero: to the left>...; the last one is for the rest too
  LC_ALL=C.UTF-8 awk -F '\037' -v widths="$*" '
    { cells[NR] = $0; for (i = 1; i <= NF; i++) if (length($i) > most[i]) most[i] = length($i) }
    END {
      n = split(widths, width, " ")
      for (row = 1; row <= NR; row++) {
        m = split(cells[row], cell, "\037"); line = ""
        for (i = 1; i <= m; i++) {
          w = width[i < n ? i : n]; least = w < 0 ? -w : w
          line = line sprintf("%s%*s", i > 1 ? "  " : "", (most[i] > least ? most[i] : least) * (w < 0 ? -1 : 1), cell[i])
        }
        sub(/ +$/, "", line)
        print line
      }
    }'
}
