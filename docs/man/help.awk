# SPDX-License-Identifier: Apache-2.0
# docs/reference/vhostlimitctl.md -> ctl_help.h, the text of vhostlimitctl --help.

BEGIN {
  print "/* SPDX-License-Identifier: Apache-2.0 */"
  print "/* Made from docs/reference/vhostlimitctl.md. */"
  print "static const char help[] ="
  put("Summary: shows and changes how Apache's virtual hosts share the server (mod_vhostlimit)")
  put("Usage:   vhostlimitctl [OPTION]... COMMAND [ARGUMENT]...")
}

function put(text) {
  gsub(/\\/, "\\\\", text)
  gsub(/"/, "\\\"", text)
  print "    \"" text "\\n\""
}

# Prints the text beside the syntax, or below it, in lines of up to 88 characters.
function entry(syntax, text, column,    n, i, words, left) {
  left = "  " syntax
  if (length(left) + 2 > column) { put(left); left = "" }
  while (length(left) < column) left = left " "
  n = split(text, words, " ")
  for (i = 1; i <= n; i++) {
    if (length(left) + length(words[i]) > 88) {
      sub(/ +$/, "", left)
      put(left)
      left = sprintf("%" column "s", "")
    }
    left = left words[i] " "
  }
  sub(/ +$/, "", left)
  put(left)
}

/^## / { heading = substr($0, 4); if (heading == "Options") entry("SITE", "a name as top shows it, or a ServerName", 25) }
/^- Syntax: / { syntax = substr($0, 11); gsub(/`/, "", syntax) }
# A summary is one line: the rest of a longer one would be missing.
was_summary && /^  / { print "#error a summary of the page has more than one line"; exit 1 }
{ was_summary = /^- Summary: / }
/^- Summary: / { entry(syntax, substr($0, 12), heading == "Options" ? 15 : 25) }
/^- `[0-9]+`: / && heading == "Exit status" { split($0, word, "`"); statuses = statuses " " word[2] }

END {
  put("Exit:    0 done; 1 refused, no such site, or doctor found a problem; 2 usage;")
  put("         69 no server with the module answers; 77 not root")
  print "    ;"
  if (statuses != " 0 1 2 69 77") { print "#error the exit statuses of the help are not those of the page"; exit 1 }
}
