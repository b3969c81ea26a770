#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# httpd 2.4.71, mod_lbmethod_bytraffic, two equal members, one of which was down.
# Expected: when the member is back, each of the two gets half of the traffic.
# Seen: the member that is back gets all requests until its bytes since the start of the server
#   equal those of the other. The other member is idle for as long as the outage was.

. "$(dirname "$0")/lib.sh"
root trixie apache2-bin=2.4.71-1~deb13u1 python3 curl

measure() {
  cat >"$ROOT/w/backend.py" <<'END'
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'%d\n' % self.server.server_port)
    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
END
  in_root python3 /w/backend.py 8001 &
  until_listening 8001
  httpd proxy proxy_http proxy_balancer lbmethod_bytraffic slotmem_shm <<'END'
<Proxy "balancer://pair">
  BalancerMember http://127.0.0.1:8001 retry=1
  BalancerMember http://127.0.0.1:8002 retry=1
  ProxySet lbmethod=bytraffic
</Proxy>
ProxyPass / balancer://pair/
END
  requests() { in_root curl -s "http://127.0.0.1/[1-$1]"; }
  count() { grep -cx "$1" "$ROOT/w/answers" || :; }
  requests 300 >"$ROOT/w/answers"
  seen "8002 is down, 300 requests: 8001 got $(count 8001)" "$(count 8001) == 300"
  in_root python3 /w/backend.py 8002 &
  until_listening 8002
  sleep 1.5                                  # retry=1
  requests 200 >"$ROOT/w/answers"
  seen "8002 is back, 200 requests: 8001 got $(count 8001), 8002 got $(count 8002)" "$(count 8001) == 0 && $(count 8002) == 200"
  requests 300 >"$ROOT/w/answers"
  seen "300 more: 8001 got $(count 8001), 8002 got $(count 8002)" "$(count 8001) > 75 && $(count 8002) > 150"
}

isolated measure
