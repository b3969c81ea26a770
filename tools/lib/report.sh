# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# result.json as text: the machine, a table for each page, the rows.

# Prints the text, and writes it to report.txt.  Writes the targets side by side to table.md,
# for documents, if the test has such a table.
report_print() { # <result.json> <folder>
  local both markdown
  both=$(lib_jq report 'text_report, "\u001d", markdown' -r "$1")
  report_cells '' <<<"${both%%$'\n\035'*}" | tee "$2/report.txt"
  markdown=${both#*$'\035'}
  rm -f "$2/table.md"
  [[ -z $markdown ]] || printf '%s\n' "${markdown#$'\n'}" >"$2/table.md"
}

# Rows of cells separated by \x1f, which may be empty.  A column has at least the given
# width; two spaces separate columns.  A line of \x1e and widths begins another table, and
# without widths lines of text.  awk and not column(1), which no package of a minimal Debian
# has.
report_cells() { # <width, below zero: to the left>...; the last one is for the rest too
  LC_ALL=C.UTF-8 awk -F '\037' -v widths="$*" '
    function print_table(  n, row, i, columns, cell, width, w, least, line) {
      n = split(widths, width, " ")
      for (row = 1; row <= rows; row++) {
        columns = split(cells[row], cell, "\037"); line = ""
        for (i = 1; i <= columns; i++) {
          w = width[i < n ? i : n]; least = w < 0 ? -w : w
          line = line sprintf("%s%*s", i > 1 ? "  " : "", (most[i] > least ? most[i] : least) * (w < 0 ? -1 : 1), cell[i])
        }
        sub(/ +$/, "", line)
        print line
      }
      rows = 0; split("", most)
    }
    /^\036/ { print_table(); widths = substr($0, 2); next }
    widths == "" { print; next }
    { cells[++rows] = $0; for (i = 1; i <= NF; i++) if (length($i) > most[i]) most[i] = length($i) }
    END { print_table() }'
}
