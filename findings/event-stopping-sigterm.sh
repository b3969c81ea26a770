#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Apache 2.4.71 (Debian 12), event, a child process that still has a request after `httpd -k graceful`.
# Expected: SIGTERM ends this child process, as it ends one of prefork.
# Seen: SIGTERM does nothing. The request goes on, and the process ends after it. Only SIGKILL ends it at once.

. "$(dirname "$0")/lib.sh"
root bookworm apache2-bin=2.4.71-1~deb12u1 python3 curl

measure() {
  local child request status
  backend
  httpd proxy proxy_http <<'END'
ProxyPass /b http://127.0.0.1:8001
END
  child=$(pgrep -P "$(<"$ROOT/tmp/httpd.pid")")
  in_root curl -s -o /dev/null -m 20 -w '%{http_code}' http://127.0.0.1/b/8 >"$ROOT/w/status" & request=$!
  sleep 1
  in_root apache2 -f /w/httpd.conf -k graceful
  sleep 2
  kill -TERM "$child"
  sleep 2
  seen "2 s after SIGTERM the child process is $([[ -e /proc/$child ]] && echo there || echo gone)" "$([[ -e /proc/$child ]] && echo 1 || echo 0) == 1"
  wait "$request" || true
  status=$(<"$ROOT/w/status")
  seen "status of its request: $status" "$status == 200"
}

isolated measure
