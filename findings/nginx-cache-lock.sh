#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# nginx 1.26.3, proxy_cache_lock on, six requests for a page that is not in the cache. The back end
#   needs 0.1 s.
# Expected: one request goes to the back end. The others are answered when it is, after 0.1 s.
# Seen: each of the others looks at the cache after 0.5 s, and again each 0.5 s. They are answered 0.4 s
#   after the page is in the cache. Without the lock all six have it after 0.1 s.

. "$(dirname "$0")/lib.sh"
root trixie nginx=1.26.3-3+deb13u11 python3 curl

measure() {
  backend
  mkdir -m 777 "$ROOT/w/cache"
  cat >"$ROOT/w/nginx.conf" <<'END'
pid /tmp/nginx.pid;
error_log /w/error.log crit;
events { worker_connections 100; }
http {
  log_format times '$upstream_cache_status $request_time';
  proxy_cache_path /w/cache keys_zone=pages:1m;
  proxy_cache pages;
  proxy_cache_valid 200 1m;
  server {
    listen 127.0.0.1:80;
    location /lock/ { proxy_pass http://127.0.0.1:8001/; proxy_cache_lock on; access_log /w/lock times; }
    location /free/ { proxy_pass http://127.0.0.1:8001/; access_log /w/free times; }
  }
}
END
  in_root nginx -c /w/nginx.conf
  until_listening 80
  declare -A seconds=([free]=0.1 [lock]=0.10)        # one page of the cache each
  for place in free lock; do
    arguments=()
    for _ in {1..6}; do arguments+=(-o /w/out "http://127.0.0.1/$place/${seconds[$place]}"); done
    in_root curl -sZ --parallel-immediate "${arguments[@]}"
    sleep 0.2
  done
  read -r missed slow < <(awk '/MISS/ { n++ } $2 > 0.45 { slow++ } END { print n + 0, slow + 0 }' "$ROOT/w/free")
  seen "without the lock: $missed requests to the back end, $slow answers after 0.45 s or more" "missed == 6 && slow == 0"
  read -r missed ms late < <(awk '/MISS/ { n++; ms = $2 * 1000 } /HIT/ && $2 > 0.45 { late++ } END { print n + 0, ms + 0, late + 0 }' "$ROOT/w/lock")
  seen "with the lock: $missed request to the back end, $ms ms; $late of the others after 0.45 s or more" "missed == 1 && ms < 400 && late >= 4"
}

isolated measure
