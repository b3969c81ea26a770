# SPDX-License-Identifier: Apache-2.0
# Functions of the programs that make manual pages (mdoc) from docs/reference.

# Returns the text without marks, as mdoc writes it.  Of a link only the label stays.
function escaped(text,    i, n, part) {
  n = split(text, part, "`")
  text = part[1]
  for (i = 2; i <= n; i++) {
    if (i % 2 == 0) gsub(/\[/, "\002", part[i])        # code: no link
    text = text part[i]
  }
  gsub(/\]\([^)]*\)/, "", text)
  gsub(/\\\|/, "|", text)
  gsub(/\\/, "\\e", text)
  gsub(/\[/, "", text)
  gsub(/\002/, "[", text)
  gsub(/\*\*/, "", text)
  while (match(text, /\*[A-Za-z]+\*/))
    text = substr(text, 1, RSTART - 1) substr(text, RSTART + 1, RLENGTH - 2) substr(text, RSTART + RLENGTH)
  gsub(/-/, "\\-", text)
  return text ~ /^[.']/ ? "\\&" text : text
}

function line(text) { if (text != "") print escaped(text) }

# Prints a line of code as it is.
function verbatim(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  print (text ~ /^[.']/ ? "\\&" : "") text
}

# Prints a line of text, of a list or of an indented or fenced block of code.
function body(text) {
  if (text ~ /^```/ || (!fenced && !code && paragraph && text ~ /^    /)) {
    print code ? ".Ed" : ".Bd -literal -offset indent"
    code = !code
    fenced = text ~ /^```/ ? !fenced : fenced
    paragraph = 0
    if (fenced || !code) return
  }
  if (code && !fenced && text !~ /^    / && text != "") { print ".Ed"; code = 0; paragraph = 1 }
  if (code) {
    if (text != "" || fenced) verbatim(fenced ? text : substr(text, 5))
    return
  }
  if (text == "") { paragraph = 1; return }
  if (text ~ /^\|-/) return
  if (text ~ /^\| /) { print paragraph ? ".Pp" : ".br"; row(text); paragraph = 0; return }
  if (text ~ /^([-*]|[0-9]+\.) /) { print ".Pp"; paragraph = 0; sub(/^[-*] /, "", text) }
  if (paragraph) { print ".Pp"; paragraph = 0 }
  sub(/^ +/, "", text)
  line(text)
}

# Prints a row of a table as text: the first cell, and what the other cells say.
function row(text,    cell, cells, n) {
  gsub(/\\\|/, "\001", text)
  n = split(text, cell, / *\| */)
  for (i = 2; i < n; i++)
    if (cell[i] != "") cells = cells (cells == "" ? "" : cells ~ /:/ ? "; " : ": ") cell[i]
  gsub(/\001/, "|", cells)
  line(cells)
}

# Ends a block of code that ends with its section.
function end_body() {
  if (code) print ".Ed"
  code = fenced = paragraph = 0
}
