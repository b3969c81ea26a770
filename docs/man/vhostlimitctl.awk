# SPDX-License-Identifier: Apache-2.0
# docs/reference/vhostlimitctl.md -> vhostlimitctl(8), in mdoc.  Needs markdown.awk.

BEGIN {
  print ".\\\" SPDX-License-Identifier: Apache-2.0"
  print ".\\\" Made from docs/reference/vhostlimitctl.md."
  print ".Dd November 23, 2026"
  print ".Dt VHOSTLIMITCTL 8"
  print ".Os"
  print ".Sh NAME"
  print ".Nm vhostlimitctl"
  print ".Nd show and change how Apache\\(aqs virtual hosts share the server"
  print ".Sh SYNOPSIS"
  print ".Nm\n.Op Fl s Ar socket\n.Op Fl -json\n.Ar command\n.Op Ar argument ..."
  print ".Nm\n.Fl h | Fl -help | Fl -version"
  print ".Sh DESCRIPTION"
}

# Returns the syntax of a command or an option with the macros of mdoc.
function marked(syntax,    n, i, word, words, end, text, part, parts, k) {
  gsub(/`/, "", syntax)
  n = split(syntax, words, " ")
  for (i = 1; i <= n; i++) {
    word = words[i]
    end = ""
    if (sub(/^\[/, "", word)) text = text " Oo"
    if (sub(/\]$/, "", word)) end = " Oc"
    parts = split(word, part, "|")
    for (k = 1; k <= parts; k++) {
      word = part[k]
      if (k > 1) text = text " |"
      if (word ~ /^-/) text = text " Fl " substr(word, 2)
      else if (word ~ /^[A-Z]/) text = text " Ar " word
      else text = text (i > 1 && words[i - 1] ~ /^[a-z]/ && text ~ /Cm/ ? " " : " Cm ") word
    }
    text = text end
  }
  gsub(/\.\.\./, " ...", text)
  return substr(text, 2)
}

function end_list() { if (is_list) print ".El"; is_list = 0 }

function begin_list(width) { if (!is_list) print ".Bl -tag -width " width; is_list = 1 }

/^<!--/ || /^# / { next }
/^## / {
  end_body()
  end_list()
  heading = substr($0, 4)
  print ".Sh " toupper(heading)
  next
}
/^### / {
  end_body()
  next
}
/^- Syntax: / {
  end_body()
  begin_list("Ds")
  syntax = substr($0, 11)
  sub(/, /, " , ", syntax)
  print ".It " marked(syntax)
  next
}
/^- Summary: / {
  text = substr($0, 12)
  line(toupper(substr(text, 1, 1)) substr(text, 2) ".")
  paragraph = 1
  next
}
# Exit statuses and files are lists of a word and its text.
/^- `[^`]*`: / && (heading == "Exit status" || heading == "Files") {
  begin_list("Ds")
  split($0, word, "`")
  print ".It " (heading == "Files" ? "Pa " : "") word[2]
  line(substr($0, length(word[2]) + 7))
  paragraph = 0
  next
}
{ body($0) }

END {
  end_body()
  end_list()
  print ".Sh SEE ALSO"
  print ".Xr mod_vhostlimit 5 ,"
  print ".Xr vhostlimit-fleet 8 ,"
  print ".Xr apache2 8 ,"
  print ".Xr httpd 8"
}
