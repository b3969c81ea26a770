#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# httpd 2.4.71, MaxKeepAliveRequests n: "limits the number of requests allowed per connection".
# Expected: a connection serves n requests, as with nginx's keepalive_requests n.
# Seen: it serves n + 1. The header "Keep-Alive: max=" counts the further requests, so the first
#   response says max=n. A test of "one request per connection" with n = 1 has two per connection.

. "$(dirname "$0")/lib.sh"
root trixie apache2-bin=2.4.71-1~deb13u1 nginx=1.26.3-3+deb13u11 curl

measure() {
  echo page >"$ROOT/w/page"
  cat >"$ROOT/w/nginx.conf" <<'END'
pid /tmp/nginx.pid;
error_log /w/error.log crit;
events { worker_connections 100; }
http { access_log off; server { listen 127.0.0.1:8080; root /w; keepalive_requests 4; } }
END
  in_root nginx -c /w/nginx.conf
  httpd <<'END'
MaxKeepAliveRequests 4
END
  connections() { # of twenty requests
    in_root curl -s -o /dev/null -w '%{num_connects}\n' "http://127.0.0.1:$1/page?[1-20]" | awk '{ n += $1 } END { print n }'
  }
  seen "nginx, keepalive_requests 4: 20 requests need $(connections 8080) connections" "$(connections 8080) == 5"
  seen "httpd, MaxKeepAliveRequests 4: 20 requests need $(connections 80) connections" "$(connections 80) == 4"
}

isolated measure
