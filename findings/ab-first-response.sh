#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ab 2.4.71 -c 10 -n 10, a page that takes 2 s, on a server with a thread for each connection.
# Expected: ten requests run from the start, so that the test takes 2 s.
# Seen: one request runs. The other nine begin when its response has come, and the test takes 4 s. A
#   server with a slow page is idle until then, and the rate is half of what it served.

. "$(dirname "$0")/lib.sh"
root bookworm apache2-utils=2.4.71-1~deb12u1 python3

measure() {
  backend
  in_root ab -q -c 10 -n 10 http://127.0.0.1:8001/2 >"$ROOT/w/out" 2>&1 &
  sleep 1
  running=$(ss -Htn state established '( dport = :8001 )' | wc -l)
  wait $!
  tenths=$(awk '/^Time taken/ { printf "%d", $5 * 10 }' "$ROOT/w/out")
  seen "$running connection after 1 s; $(awk '/^Complete/ { print $3 }' "$ROOT/w/out") requests in $tenths tenths of a second" \
    "running == 1 && tenths >= 39 && tenths < 60"
}

isolated measure
