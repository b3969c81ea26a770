#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Apache 2.4.71 (Debian 12), event, all workers busy before and after `httpd -k graceful`.
# Expected: the log has AH00484 "server reached MaxRequestWorkers setting" after the reload again, so that
#   who watches the log learns of each time.
# Seen: it comes once in the life of the parent process. That it was logged is kept over reloads.

. "$(dirname "$0")/lib.sh"
root bookworm apache2-bin=2.4.71-1~deb12u1 python3 curl

# Forty requests of 4 s, where 25 can run.
fill() {
  local i pids=()
  for ((i = 0; i < 40; i++)); do in_root curl -s -o /dev/null -m 20 http://127.0.0.1/b/4 & pids+=($!); done
  wait "${pids[@]}" || true
}
messages() { grep -c AH00484 "$ROOT/w/error.log" || true; }

measure() {
  local before
  backend
  httpd proxy proxy_http <<'END'
ProxyPass /b http://127.0.0.1:8001
END
  fill
  before=$(messages)
  in_root apache2 -f /w/httpd.conf -k graceful
  sleep 3
  seen "$(grep -c AH00493 "$ROOT/w/error.log") reload" "$(grep -c AH00493 "$ROOT/w/error.log") == 1"
  fill
  seen "AH00484 before the reload: $before, in all: $(messages)" "$before == 1 && $(messages) == 1"
}

isolated measure
