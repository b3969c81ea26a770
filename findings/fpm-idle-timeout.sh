#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# PHP-FPM 8.4.28, pm = ondemand, pm.process_idle_timeout = 1s, ten processes.
# Expected: a process that is idle for a second ends. Two seconds after the last request none is
#   left.
# Seen: one process of the pool ends each second. Ten processes that are idle from the same moment
#   need about eleven seconds, a hundred need one minute and forty seconds.

. "$(dirname "$0")/lib.sh"
root trixie php8.4-fpm=8.4.28-1~deb13u1 apache2-bin=2.4.71-1~deb13u1 curl

measure() {
  fpm_pool <<'END'
pm = ondemand
pm.max_children = 10
pm.process_idle_timeout = 1s
END
  # shellcheck disable=SC2016  # PHP
  echo '<?php time_sleep_until((float)$_GET["end"]); echo "served", PHP_EOL;' >"$ROOT/w/until.php"
  in_root php-fpm8.4 -F -y /w/fpm.conf 2>/dev/null &
  until_listening 9000
  httpd proxy proxy_fcgi <<'END'
<Files until.php>
  SetHandler "proxy:fcgi://127.0.0.1:9000"
</Files>
END
  processes() { grep -lsz '^php-fpm: pool' /proc/[0-9]*/cmdline | wc -l; }
  end=$(($(date +%s) + 4))                 # all requests end at the same time
  for _ in {1..10}; do
    in_root curl -s "http://127.0.0.1/until.php?end=$end" &
    sleep 0.2
  done >"$ROOT/w/answers"
  while (($(date +%s) < end)); do sleep 0.1; done
  sleep 0.2
  seen "$(grep -c served "$ROOT/w/answers") answers from $(processes) processes" "$(processes) == 10"
  sleep 4
  after4=$(processes)
  seen "4 s later: $after4 processes" "after4 >= 4 && after4 <= 9"
  sleep 4
  after8=$(processes)
  seen "8 s later: $after8 processes" "after8 >= 1 && after8 <= after4 - 2"
  sleep 6
  seen "14 s later: $(processes) processes" "$(processes) == 0"
}

isolated measure
