#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# h2load of nghttp2 1.64.0, --rps 500, one client, nginx answers in less than a millisecond.
# Expected: a request each 2 ms.
# Seen: a group of five requests each 10 ms, one after another within about a millisecond. The
#   mean rate is right. The server sees bursts, so its queues are longer than at an even rate.

. "$(dirname "$0")/lib.sh"
root trixie nghttp2-client=1.64.0-1.1+deb13u2 nginx=1.26.3-3+deb13u11

measure() {
  cat >"$ROOT/w/nginx.conf" <<'END'
pid /tmp/nginx.pid;
error_log /w/error.log crit;
events { worker_connections 100; }
http {
  log_format times '$msec';
  server {
    listen 127.0.0.1:80;
    keepalive_requests 10000;
    access_log /w/times times;
    location / { return 200 page; }
  }
}
END
  in_root nginx -c /w/nginx.conf
  until_listening 80
  in_root h2load --h1 -n 1500 -c 1 --rps 500 http://127.0.0.1:80/ | grep -E '^(finished|requests)'
  # Requests that come 4 ms or more after the one before, and those within a millisecond of it.
  read -r requests pauses together < <(awk '{ now = int($1 * 1000 + 0.5) }
    NR > 1 && now - before >= 4 { pauses++ } NR > 1 && now - before <= 1 { together++ }
    { before = now } END { print NR, pauses + 0, together + 0 }' "$ROOT/w/times")
  seen "$requests requests: $together within 1 ms of the one before, $pauses after a pause of 4 ms or more" \
    "requests == 1500 && together > requests / 2 && pauses > requests / 10"
}

isolated measure
