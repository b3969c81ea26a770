#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# uvicorn 0.32.0, --limit-concurrency N ("maximum number of concurrent connections or tasks to
# allow, before issuing HTTP 503").
# Expected: N connections are served at once, connection N + 1 gets 503. A limit of 1 serves one
#   client at a time.
# Seen: the connection that asks is counted before the comparison, so N - 1 are served. With a limit
#   of 1 each request gets 503, also on an idle server. Idle kept connections use up the limit.

. "$(dirname "$0")/lib.sh"
root trixie python3-uvicorn=0.32.0-3

measure() {
  cat >"$ROOT/w/page.py" <<'END'
async def app(scope, receive, send):
    await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-length', b'0')]})
    await send({'type': 'http.response.body'})
END
  cat >"$ROOT/w/client.py" <<'END'
import socket, sys

kept = []
for _ in range(5):
    kept.append(socket.create_connection(('127.0.0.1', int(sys.argv[1]))))
    kept[-1].sendall(b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
    print(kept[-1].recv(1000).split()[1].decode(), end=' ')
END
  for limit in 1 3; do
    in_root python3 -m uvicorn --app-dir /w --port "800$limit" --limit-concurrency "$limit" --lifespan off --log-level error page:app &
    sleep 2                       # a probe of the port would count
    read -ra statuses < <(in_root python3 /w/client.py "800$limit"; echo)
    served=$(printf '%s\n' "${statuses[@]}" | grep -cx 200 || :)
    seen "--limit-concurrency $limit, five connections one after another, kept: ${statuses[*]}" "served == limit - 1 && ${#statuses[@]} == 5"
  done
}

isolated measure
