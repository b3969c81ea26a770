#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Apache 2.4.71 (Debian 12), mod_proxy, two applications at Unix sockets of their own.
# Expected: `ProxyPass /a unix:/w/a|http://localhost` and `ProxyPass /b unix:/w/b|http://localhost`
#   send /a and /b to two applications, as two ports do.
# Seen: the socket is no part of a worker's name. The second line uses the first one's worker and
#   socket, so /b is answered by application a. With another name after the bar it is answered by b.
#   The log has AH01146 "Using existing worker" only at the level info.

. "$(dirname "$0")/lib.sh"
root bookworm apache2-bin=2.4.71-1~deb12u1 python3 curl

measure() {
  local name same other
  cat >"$ROOT/w/app.py" <<'END'
import http.server, socketserver, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(sys.argv[1].encode())
    def log_message(self, *words):
        pass
    def address_string(self):
        return ''
class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    def get_request(self):
        return self.socket.accept()[0], ('', 0)
Server('/w/' + sys.argv[1], Handler).serve_forever()
END
  for name in a b; do in_root python3 /w/app.py "$name" & done
  sleep 1
  chmod 777 "$ROOT"/w/{a,b}
  httpd proxy proxy_http <<'END'
ProxyPass /a unix:/w/a|http://localhost
ProxyPass /b unix:/w/b|http://localhost
ProxyPass /c unix:/w/b|http://other
END
  same=$(in_root curl -s http://127.0.0.1/b) other=$(in_root curl -s http://127.0.0.1/c)
  seen "$(in_root curl -s http://127.0.0.1/a) answers /a, $same answers /b, $other answers /c, whose name differs" \
    "$([[ $same$other == ab ]] && echo 1 || echo 0) == 1"
  seen "$(grep -c AH01146 "$ROOT/w/error.log" || true) lines with AH01146 in the log" "$(grep -c AH01146 "$ROOT/w/error.log" || true) == 0"
}

isolated measure
