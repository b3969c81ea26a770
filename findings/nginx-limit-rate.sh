#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# nginx 1.26.3, limit_req without burst=, more requests than the rate.
# Expected: a rate of 900r/s lets about 900 requests a second pass, one of 5000r/s about 5000.
# Seen: nginx counts whole milliseconds. The time between two requests is rounded up to the next
#   millisecond: 900r/s (1.1 ms) lets at most 500 pass, and no rate lets more than 1000 pass.

. "$(dirname "$0")/lib.sh"
root trixie nginx=1.26.3-3+deb13u11 wrk=4.1.0-4+b1

measure() {
  cat >"$ROOT/w/nginx.conf" <<'END'
pid /tmp/nginx.pid;
error_log /w/error.log crit;
events { worker_connections 100; }
http {
  access_log off;
  limit_req_zone $server_port zone=r900:1m rate=900r/s;
  limit_req_zone $server_port zone=r5000:1m rate=5000r/s;
  server {
    listen 127.0.0.1:80;
    root /w;
    location /unlimited { alias /w/page; }
    location /r900 { limit_req zone=r900; alias /w/page; }
    location /r5000 { limit_req zone=r5000; alias /w/page; }
  }
}
END
  echo page >"$ROOT/w/page"
  in_root nginx -c /w/nginx.conf
  until_listening 80
  passed() { # responses a second with status 200 over 4 s
    in_root wrk -t1 -c4 -d4s "http://127.0.0.1:80/$1" |
      awk '/requests in/ { all = $1 } /Non-2xx/ { refused = $NF } END { printf "%d", (all - refused) / 4 }'
  }
  all=$(passed unlimited)
  ((all > 6000)) || { echo "this machine makes $all requests/s only: no answer"; exit 77; }
  seen "unlimited: $all/s" "all > 6000"
  rate=$(passed r900)
  seen "rate=900r/s: $rate/s" "rate > 200 && rate < 600"
  rate=$(passed r5000)
  seen "rate=5000r/s: $rate/s" "rate > 400 && rate < 1200"
}

isolated measure
