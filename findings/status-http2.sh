#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# httpd 2.4.71, mod_status, requests over HTTP/2.
# Expected: BusyWorkers counts the requests that run; "Total Duration" adds up the time of all that
#   "Total Accesses" counts, so that DurationPerReq is their mean.
# Seen: eight streams that run at once show as one busy worker. HTTP/2 requests add to
#   "Total Accesses" and add nothing to "Total Duration": DurationPerReq falls as they come.

. "$(dirname "$0")/lib.sh"
root trixie apache2-bin=2.4.71-1~deb13u1 python3 curl nghttp2-client=1.64.0-1.1+deb13u2

measure() {
  backend
  httpd status http2 proxy proxy_http <<'END'
Protocols h2c http/1.1
H2MinWorkers 8
H2MaxWorkers 8
ExtendedStatus On
ProxyPass /second http://127.0.0.1:8001/1
<Location /status>
  SetHandler server-status
</Location>
END
  status() { in_root curl -s 'http://127.0.0.1/status?auto' >"$ROOT/w/status"; }
  value() { sed -n "s/^$1: //p" "$ROOT/w/status"; }
  in_root curl -s http://127.0.0.1/second
  status
  seen "one request of 1 s over HTTP/1.1: duration $(value 'Total Duration') ms" "$(value 'Total Duration') >= 1000"
  before=$(value 'Total Duration') accesses=$(value 'Total Accesses')
  in_root h2load -n 8 -c 1 -m 8 http://127.0.0.1/second >"$ROOT/w/h2load" &
  sleep 0.5
  status
  seen "eight streams of 1 s at once: $(value BusyWorkers) busy workers, one of them for this question" "$(value BusyWorkers) <= 2"
  wait $!
  seen "$(grep '^requests:' "$ROOT/w/h2load")" "$(grep -c ' 8 succeeded' "$ROOT/w/h2load") == 1"
  sleep 0.5
  status
  seen "afterwards: $(($(value 'Total Accesses') - accesses)) more accesses, $(($(value 'Total Duration') - before)) ms more duration" \
    "$(value 'Total Accesses') - accesses >= 8 && $(value 'Total Duration') - before < 500"
}

isolated measure
