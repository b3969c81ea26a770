#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# sysstat 12.6.1 (Debian 12) reads a record that sadc 12.7.5 (Debian 13) made.
# Expected: the magic number of the format is the same (0x2175), so the figures appear. Otherwise
#   the program fails with a message.
# Seen: sadf and sar end with status 0 and print no figure. "sadf -c", which converts old records,
#   ends with status 0 for a current record, and its output is an empty file.

. "$(dirname "$0")/lib.sh"
root bookworm sysstat=12.6.1-1
export OLD=$ROOT
root trixie sysstat=12.7.5-2

measure() {
  mount -t proc proc "$OLD/proc"
  in_root /usr/libexec/sysstat/sadc 1 4 /w/record 2>/dev/null
  cp "$ROOT/w/record" "$OLD/w/record"
  magic() { chroot "$1" sadf -H /w/record | sed -n 's/^System activity data file:.*(\(.*\))$/\1/p'; }
  seen "format: $(magic "$ROOT") for the new, $(magic "$OLD") for the old sysstat" "$(magic "$ROOT") == $(magic "$OLD")"
  new=$(in_root sadf -d /w/record | grep -vc '^#')
  seen "12.7.5: $new lines of figures" "new == 3"
  status=0
  chroot "$OLD" sadf -d /w/record >"$ROOT/w/out" 2>"$ROOT/w/err" || status=$?
  old=$(grep -vc '^#' "$ROOT/w/out" || :)
  seen "12.6.1: $old lines of figures, status $status, $(wc -c <"$ROOT/w/err") bytes of messages" "old == 0 && status == 0"
  status=0
  in_root sadf -c /w/record >"$ROOT/w/out" 2>"$ROOT/w/err" || status=$?
  seen "12.7.5 -c: $(wc -c <"$ROOT/w/out") bytes, status $status, message: $(xargs <"$ROOT/w/err")" "$(wc -c <"$ROOT/w/out") == 0 && status == 0"
}

isolated measure
