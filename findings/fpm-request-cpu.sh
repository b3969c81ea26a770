#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# PHP-FPM 8.4.28, %C of access.format (CPU of the request in percent), requests that compute for
# 4 ms with one thread.
# Expected: about 100, a little less for what is not computing.
# Seen: the CPU time is read in steps of 10 ms. Most requests have 0.00, and the others about 240.
#   Only the mean over many requests says something; the value of a request says nothing.

. "$(dirname "$0")/lib.sh"
root trixie php8.4-fpm=8.4.28-1~deb13u1 apache2-bin=2.4.71-1~deb13u1 curl

measure() {
  fpm_pool <<'END'
pm = static
pm.max_children = 1
access.log = /w/access.log
access.format = "%{milliseconds}d %C"
END
  # shellcheck disable=SC2016  # PHP
  echo '<?php $end = hrtime(true) + 4e6; while (hrtime(true) < $end);' >"$ROOT/w/compute.php"
  in_root php-fpm8.4 -F -y /w/fpm.conf 2>/dev/null &
  until_listening 9000
  httpd proxy proxy_fcgi <<'END'
<Files compute.php>
  SetHandler "proxy:fcgi://127.0.0.1:9000"
</Files>
END
  in_root curl -s 'http://127.0.0.1/compute.php?[1-200]'
  sleep 0.2
  read -r requests zero above ms < <(awk '{ n++; ms += $1 } $2 == 0 { zero++ } $2 > 150 { above++ }
    END { print n, zero + 0, above + 0, int(ms / n) }' "$ROOT/w/access.log")
  seen "$requests requests of $ms ms: %C is 0 for $zero, and more than 150 for $above" \
    "requests == 200 && zero > 80 && above > 20 && zero + above > 150"
}

isolated measure
