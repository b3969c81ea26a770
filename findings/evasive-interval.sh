#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mod_evasive 2.4.0 (httpd 2.4.71), DOSPageCount 5 and DOSPageInterval 3: five requests for a page in 3 s.
# Expected: a client that asks for the page once a second stays below the limit, for ever.
# Seen: the count is not of an interval. It grows with each request until the client pauses for a
#   whole interval. The client is blocked at its seventh request, and stays so while it goes on.

. "$(dirname "$0")/lib.sh"
root trixie apache2-bin=2.4.71-1~deb13u1 libapache2-mod-evasive=2.4.0-2 curl

measure() {
  echo page >"$ROOT/w/page"
  mkdir -m 777 "$ROOT/w/log"
  httpd evasive <<'END'
DOSEnabled true
DOSPageCount 5
DOSPageInterval 3
DOSLogDir /w/log
END
  statuses=()
  for _ in {1..10}; do
    statuses+=("$(in_root curl -s -o /w/out -w '%{http_code}' http://127.0.0.1/page)")
    sleep 1
  done
  seen "a request each second: ${statuses[*]}" "statuses[2] == 200 && statuses[7] == 403 && statuses[9] == 403"
  sleep 11
  statuses=()
  for _ in {1..4}; do
    statuses+=("$(in_root curl -s -o /w/out -w '%{http_code}' http://127.0.0.1/page)")
    sleep 4
  done
  seen "then, after the blocking period, a request each 4 s: ${statuses[*]}" "statuses[0] == 200 && statuses[3] == 200"
}

isolated measure
