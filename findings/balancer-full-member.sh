#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# httpd 2.4.71, mod_proxy_balancer, a member with max=1 acquire=200 (milliseconds).
# Expected: a request that finds the member's only connection in use waits up to 200 ms, and then
#   goes to the other member or fails. The member works, so the next requests may use it again.
# Seen: the request goes to the other member. The full member counts as broken: it gets no request
#   until retry= (60 s) is over, though it answers and is idle.

. "$(dirname "$0")/lib.sh"
root trixie apache2-bin=2.4.71-1~deb13u1 python3 curl

measure() {
  cat >"$ROOT/w/backend.py" <<'END'
import http.server, sys, threading, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):                       # GET .../SECONDS
        time.sleep(float(self.path.split('/')[-1]))
        body = str(self.server.server_port).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass

for port in sys.argv[1:]:
    threading.Thread(target=http.server.ThreadingHTTPServer(('127.0.0.1', int(port)), Handler).serve_forever).start()
END
  in_root python3 /w/backend.py 8001 8002 &
  until_listening 8001
  until_listening 8002
  httpd proxy proxy_http proxy_balancer lbmethod_byrequests slotmem_shm <<'END'
<Proxy "balancer://pair">
  BalancerMember http://127.0.0.1:8001 max=1 acquire=200 lbset=0
  BalancerMember http://127.0.0.1:8002 lbset=1
</Proxy>
ProxyPass / balancer://pair/
END
  ask() { in_root curl -s "http://127.0.0.1/$1"; }
  seen "three requests, one after another: $(ask 0) $(ask 0) $(ask 0)" "$(ask 0) == 8001"
  ask 1 >"$ROOT/w/long" &
  sleep 0.2
  seen "a request beside a request of 1 s: $(ask 0)" "$(ask 0) == 8002"
  wait $!
  sleep 1
  seen "the long request was answered by $(<"$ROOT/w/long")" "$(<"$ROOT/w/long") == 8001"
  seen "directly at 8001: $(in_root curl -s http://127.0.0.1:8001/0)" "$(in_root curl -s http://127.0.0.1:8001/0) == 8001"
  seen "1 s later, both idle, three requests: $(ask 0) $(ask 0) $(ask 0)" "$(ask 0) == 8002"
}

isolated measure
