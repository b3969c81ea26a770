#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# wrk 4.1.0 --timeout 1s --latency, a server of which half of the connections answer slowly.
# Expected: a response that does not come in a second counts as a timeout. Percentiles cover all
#   responses that are counted, so half of them are 1.5 s.
# Seen: responses that never come are no timeouts: nothing at all is reported. Slow responses count
#   in requests and in timeouts, but not in the latency: the 99th percentile is that of the others.

. "$(dirname "$0")/lib.sh"
root trixie wrk=4.1.0-4+b1 python3

measure() {
  cat >"$ROOT/w/server.py" <<'END'
import http.server, itertools, time

numbers = itertools.count()

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def setup(self):
        super().setup()
        self.slow = 1.5 if next(numbers) % 2 else 0.5     # every second connection
    def do_GET(self):
        time.sleep(60 if self.path == '/never' else self.slow)
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()
    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer.request_queue_size = 100
http.server.ThreadingHTTPServer(('127.0.0.1', 80), Handler).serve_forever()
END
  in_root python3 /w/server.py 2>/dev/null &
  until_listening 80
  load() { in_root wrk -t1 -c"$2" -d"$3"s --timeout 1s --latency "http://127.0.0.1:80/$1" >"$ROOT/w/out"; }
  field() { awk "/$1/ { print \$$2 }" "$ROOT/w/out"; }
  load never 4 5
  seen "no answer for 5 s: $(field 'requests in' 1) requests, $(grep -c timeout "$ROOT/w/out" || :) lines about timeouts" \
    "$(field 'requests in' 1) == 0 && $(grep -c timeout "$ROOT/w/out" || :) == 0"
  load half 40 8
  timeouts=$(field 'Socket errors' 10) requests=$(field 'requests in' 1)
  seen "$requests requests, $timeouts of them timeouts of 1.5 s, 99 % of the latency within $(field 99% 2)" \
    "timeouts * 10 > requests && timeouts < requests && $(field 99% 2 | grep -c '^[0-9.]*ms$' || :) == 1"
}

isolated measure
