#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Apache 2.4.71 (Debian 12), mod_proxy, an application that takes no connection, as PHP-FPM while all of
# its processes are busy and its backlog is full.
# Expected: `ProxyTimeout 2` and `connectiontimeout=1` end the request with 503 or 504 at a TCP port and at
#   a Unix socket.
# Seen: at the TCP port it is 503 after 1 s. At the Unix socket connect() has no time limit, so the request
#   keeps its thread until the application takes a connection. The scoreboard shows it as W.

. "$(dirname "$0")/lib.sh"
root bookworm apache2-bin=2.4.71-1~deb12u1 python3 curl

measure() {
  local tcp unix
  cat >"$ROOT/w/full.py" <<'END'
import os, socket, time
kept = []
for family, address in (socket.AF_INET, ("127.0.0.1", 8001)), (socket.AF_UNIX, "/w/full"):
    listener = socket.socket(family)
    listener.bind(address)
    listener.listen(0)
    for _ in range(8):              # the backlog is full then
        client = socket.socket(family)
        client.setblocking(False)
        client.connect_ex(address)
        kept.append((listener, client))
os.chmod("/w/full", 0o777)
time.sleep(60)
END
  in_root python3 /w/full.py &
  sleep 1
  httpd proxy proxy_http <<'END'
ProxyTimeout 2
ProxyPass /tcp http://127.0.0.1:8001 connectiontimeout=1
ProxyPass /unix unix:/w/full|http://localhost connectiontimeout=1
END
  tcp=$(in_root curl -s -o /dev/null -m 10 -w '%{http_code}' http://127.0.0.1/tcp || true)
  unix=$(in_root curl -s -o /dev/null -m 10 -w '%{http_code}' http://127.0.0.1/unix || true)
  seen "the TCP port: status $tcp" "$tcp == 503"
  seen "the Unix socket: status $unix (0: none in 10 s)" "10#$unix == 0"
}

isolated measure
