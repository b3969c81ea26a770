#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs until the test writes to the fifo named in the query string, a minute at most.
# Writes the pid of its httpd child for the test.

folder=${0%/*}/../hold
hold=$folder/$QUERY_STRING
echo "$QUERY_STRING" >>"$folder/begun"
echo "$PPID" >"$hold.in.part" && mv "$hold.in.part" "$hold.in"
timeout 60 head -n 1 "$hold.fifo" >/dev/null
printf 'Content-Type: text/plain\r\n\r\nheld %s\n' "$QUERY_STRING"
