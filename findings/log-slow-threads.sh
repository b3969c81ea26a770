#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mod_log_slow 1.0.8 (httpd 2.4.71, mpm_event), LogSlowLongRequestTime 1000, a request of 2 s.
# Expected: it is in the log, with 2 s, whatever else the server does meanwhile.
# Seen: the time begins with the newest request of the process. A short request 0.5 s later makes the
#   2 s become 1.5 s. One 1.5 s later keeps the slow request out of the log. The CPU time of the
#   line begins there too. A busy server logs no slow request.

. "$(dirname "$0")/lib.sh"
root trixie apache2-bin=2.4.71-1~deb13u1 libapache2-mod-log-slow=1.0.8-3.1 python3 curl

measure() {
  backend
  echo page >"$ROOT/w/page"
  httpd log_slow proxy proxy_http <<'END'
LogSlowEnabled On
LogSlowLongRequestTime 1000
LogSlowFileName /w/slow.log
ProxyPass /wait http://127.0.0.1:8001
END
  # Prints the elapsed time, in ms, that the log has for a request of 2 s. A second request comes after <seconds>.
  logged() { # <seconds>
    : >"$ROOT/w/slow.log"
    in_root curl -s http://127.0.0.1/wait/2 &
    sleep "$1"
    in_root curl -s -o /w/out http://127.0.0.1/page
    wait $!
    sleep 0.2
    awk '/wait/ { ms = $5 * 1000 } END { printf "%d", ms }' "$ROOT/w/slow.log"
  }
  ms=$(logged 2.5)
  seen "alone: $ms ms in the log" "ms >= 1900"
  ms=$(logged 0.5)
  seen "a short request after 0.5 s: $ms ms in the log" "ms >= 1100 && ms < 1800"
  ms=$(logged 1.5)
  seen "a short request after 1.5 s: $ms ms in the log (0: no line)" "ms == 0"
}

isolated measure
