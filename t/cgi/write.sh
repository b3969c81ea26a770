#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Writes 3 MB past the page cache and prints how many milliseconds that took.

file=$(dirname "$0")/../hold/written.$$
from=$(date +%s%N)
if dd if=/dev/zero of="$file" bs=64k count=48 oflag=direct 2>/dev/null; then
  printf 'Content-Type: text/plain\r\n\r\n%s\n' "$((($(date +%s%N) - from) / 1000000))"
else
  printf 'Content-Type: text/plain\r\n\r\nno direct writes here\n'
fi
rm -f "$file"
