#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What belongs to vhostlimitctl: its parts, installed, its manual, its completion.

bats_require_minimum_version 1.5.0
load lib/common
load lib/httpd
load lib/guard

installed() { printf '%s%s\n' "$BATS_FILE_TMPDIR/root" "$1"; }  # <path>

setup_file() {
  make -C "${VL_BUILD_DIR:-$TOP}" -s install-sbinSCRIPTS install-partsDATA install-man install-data-local \
    DESTDIR="$BATS_FILE_TMPDIR/root" >"$BATS_FILE_TMPDIR/make" 2>&1 || { cat "$BATS_FILE_TMPDIR/make"; return 1; }
  # DESTDIR is where the files are to be; the program looks in its final place.
  sed -i "s|^here=|here=$(installed '')|" "$(part '*/sbin/vhostlimitctl')"
}

part() { find "$(installed /)" -type f -path "$1"; }  # <pattern>

# The commands as the help has them.
commands() { "$TOP/tools/vhostlimitctl" -h | sed -n 's/^  \([a-z]\{3,\}\) .*/\1/p' | sort -u; }

@test "it is installed with all of its parts" {
  local script
  script=$(part '*/sbin/vhostlimitctl')
  is "$(find "$(installed /)" -path '*/mod_vhostlimit/lib/ctl*' -printf '%f\n' | sort | xargs)" \
    "$(find "$TOP/tools/lib" -name 'ctl*' -printf '%f\n' | sort | xargs)"
  try "$script" -s /nowhere list
  is "$status $output" '69 vhostlimitctl: no answer from /nowhere: No such file or directory'
}

@test "the manual, the help and the completion know the same commands" {
  at_least "$(commands | wc -l)" 9 "commands in the help"
  is "$(sed -n 's/^\.It Cm \([a-z]*\).*/\1/p' "$(part '*/man8/vhostlimitctl.8')" | sort)" "$(commands)" "in the manual"
  is "$(sed -n 's/^ *:\*) echo \([a-z ]*[a-z]\) -.*/\1/p' "$(part '*/completions/vhostlimitctl')" | tr ' ' '\n' | sort)" \
    "$(commands)" "in the completion"
}

@test "mod_vhostlimit(5) has every directive" {
  is "$(sed -n 's/^\.It Cm //p' "$(part '*/man5/mod_vhostlimit.5')" | sort)" "$(directives_of_module)"
}

@test "groff has nothing to say about the manuals" {
  requires groff
  local page
  for page in $(part '*/man/*'); do
    try groff -mdoc -ww -z -K utf8 "$page"
    is "$status $output" '0 '
  done
}

need_groff() { need_program groff; }

@test "installed, it still knows its version" {
  try "$(part '*/sbin/vhostlimitctl')" --version
  is "$status $output" "0 $("$TOP/tools/vhostlimitctl" --version)"
  like "$output" '^vhostlimitctl \(mod_vhostlimit\) [0-9]+\.[0-9]+'
}

@test "no server, no root and a missing program end with different codes" {
  local bin=$BATS_TEST_TMPDIR/bin program
  mkdir "$bin"
  for program in bash env dirname sed getopt cut paste mktemp rm; do ln -s "$(command -v "$program")" "$bin/"; done
  # common.sh adds /usr/sbin and /sbin to PATH; jq is in neither.
  run -127 env PATH="$bin" "$TOP/tools/vhostlimitctl" -s /nowhere list
  is "$output" 'vhostlimitctl: jq is not installed; install it and try again'
  try "$TOP/tools/vhostlimitctl" list -s /nowhere
  is "$status" 69
}
