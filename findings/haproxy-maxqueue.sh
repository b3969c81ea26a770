#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# HAProxy 3.0.11, one server with maxconn 1 and maxqueue 2, ten requests at the same moment.
# Expected: one request runs, two wait, and seven get 503, with each balance algorithm.
# Seen: with roundrobin all ten wait and get 200. Requests for no particular server wait in the queue
#   of the backend, which maxqueue does not limit. With "balance source" seven get 503.

. "$(dirname "$0")/lib.sh"
root trixie haproxy=3.0.11-1+deb13u5 python3 curl

measure() {
  backend
  cat >"$ROOT/w/haproxy.cfg" <<'END'
defaults
  mode http
  timeout connect 10s
  timeout client 10s
  timeout server 10s
listen turns
  bind 127.0.0.1:8002
  balance roundrobin
  server only 127.0.0.1:8001 maxconn 1 maxqueue 2
listen hash
  bind 127.0.0.1:8003
  balance source
  server only 127.0.0.1:8001 maxconn 1 maxqueue 2
END
  chroot "$ROOT" haproxy -f /w/haproxy.cfg 2>"$ROOT/w/log" &
  until_listening 8002
  until_listening 8003
  refused() { # <port>
    local arguments=()
    for _ in {1..10}; do arguments+=(-o /w/out "http://127.0.0.1:$1/0.5"); done
    in_root curl -sZ --parallel-immediate -w '%{http_code}\n' "${arguments[@]}" | sort | uniq -c | awk '{ n[$2] = $1 } END { print n[200] + 0, n[503] + 0 }'
  }
  read -r served refused < <(refused 8003)
  seen "balance source: $served times 200, $refused times 503" "served >= 3 && served <= 5 && served + refused == 10"
  read -r served refused < <(refused 8002)
  seen "balance roundrobin: $served times 200, $refused times 503" "served == 10"
}

isolated measure
