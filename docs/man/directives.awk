# SPDX-License-Identifier: Apache-2.0
# docs/directives.md -> mod_vhostlimit(5), in mdoc.

function escaped(text) {
  gsub(/\\/, "\\e", text)
  gsub(/`/, "", text)
  gsub(/\*\*/, "", text)
  while (match(text, /\*[a-z]+\*/))
    text = substr(text, 1, RSTART - 1) substr(text, RSTART + 1, RLENGTH - 2) substr(text, RSTART + RLENGTH)
  gsub(/\(https?:[^)]*\)/, "", text)
  gsub(/[][]/, "", text)
  gsub(/-/, "\\-", text)
  return text ~ /^[.']/ ? "\\&" text : text
}

function line(text) { if (text != "") print escaped(text) }

BEGIN {
  print ".\\\" SPDX-License-Identifier: Apache-2.0"
  print ".\\\" Made from docs/directives.md."
  print ".Dd November 21, 2026"
  print ".Dt MOD_VHOSTLIMIT 5"
  print ".Os"
  print ".Sh NAME"
  print ".Nm mod_vhostlimit"
  print ".Nd Apache module that shares the server fairly between sites"
  print ".Sh DESCRIPTION"
}

/^<!--/ || /^# / { next }
/^## / {
  if (!listed++) print ".Sh DIRECTIVES\n.Bl -tag -width Ds"
  print ".It Cm " substr($0, 4)
  next
}
/^- (Status|Module): / { next }
/^- (Description|Syntax|Default|Range|Context): / {
  name = substr($0, 3, index($0, ":") - 3)
  if (name != "Description") print ".br"
  line(name == "Description" ? substr($0, index($0, ": ") + 2) "." : substr($0, 3))
  next
}
/^- / { print ".Pp"; $0 = substr($0, 3) }
/^$/ { paragraph = 1; next }
paragraph { print ".Pp"; paragraph = 0 }
{ sub(/^ +/, ""); line($0) }

END {
  print ".El"
  print ".Sh SEE ALSO"
  print ".Xr vhostlimitctl 8 ,"
  print ".Xr apache2 8 ,"
  print ".Xr httpd 8"
}
