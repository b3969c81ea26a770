# SPDX-License-Identifier: Apache-2.0
# docs/reference/directives.md -> mod_vhostlimit(5), in mdoc.  Needs markdown.awk.

BEGIN {
  print ".\\\" SPDX-License-Identifier: Apache-2.0"
  print ".\\\" Made from docs/reference/directives.md."
  print ".Dd November 23, 2026"
  print ".Dt MOD_VHOSTLIMIT 5"
  print ".Os"
  print ".Sh NAME"
  print ".Nm mod_vhostlimit"
  print ".Nd Apache module that shares the server fairly between sites"
  print ".Sh DESCRIPTION"
}

/^<!--/ || /^# / { next }
/^## VhostLimit/ {
  end_body()
  if (!listed++) print ".Sh DIRECTIVES\n.Bl -tag -width Ds"
  print ".It Cm " substr($0, 4)
  fields = 1
  next
}
/^## / {
  end_body()
  print ".Sh " toupper(escaped(substr($0, 4)))
  next
}
# The table of a directive.
fields && /^\|-/ { next }
fields && /^\| / {
  split($0, cell, / \| /)
  name = substr(cell[1], 3)
  value = substr($0, length(cell[1]) + 4)
  sub(/ \|$/, "", value)
  if (name == "Description") { line(value "."); next }
  print ".br"
  line(name ": " value)
  next
}
$0 != "" { fields = 0 }
{ body($0) }

END {
  end_body()
  print ".El"
  print ".Sh SEE ALSO"
  print ".Xr vhostlimitctl 8 ,"
  print ".Xr apache2 8 ,"
  print ".Xr httpd 8"
}
