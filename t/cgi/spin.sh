#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Computes until the test writes to the fifo named in the query string, a minute at most.
# Writes the pid of its httpd child for the test.

hold=$(dirname "$0")/../hold/$QUERY_STRING
rm -f "$hold.out"
(timeout 60 head -n 1 "$hold.fifo" >/dev/null; : >"$hold.out") &
echo "$PPID" >"$hold.in.part" && mv "$hold.in.part" "$hold.in"
while [ ! -e "$hold.out" ]; do :; done
printf 'Content-Type: text/plain\r\n\r\nspun %s\n' "$QUERY_STRING"
