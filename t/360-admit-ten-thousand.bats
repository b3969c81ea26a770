#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Ten thousand requests of all kinds at once, with a graceful restart in the middle. At the
# end every count is right and no request is running.

load lib/live

# Well-behaved clients: 2860 requests for each bulk. Each function prints the number of
# responses.
keep_alive()  {
  ab -q -r -k -n 2200 -c 8 -H "Host: a.test" "http://127.0.0.1:$(httpd_port)$1" |
    awk '/^Complete requests/ { n += $3 } /^Failed requests/ { n -= $3 } END { print n }'
}
pipelined()   { repeat 10 pipeline a 50 / /page.html /nope | wc -l; }
several()     { web -o /dev/null -w '%{http_code}\n' "$@" | grep -c '^200$' || :; }   # <curl argument>...
bulk()        {
  keep_alive /page.html
  pipelined
  several -I "$(url a '/page.html?[1-80]')"
  several -d body "$(url a '/cgi/echo.sh?[1-40]')"
  several "$(url a '/cgi/redirect.sh?[1-40]')"
}

# Clients that abort. How many of their requests reach the server is not asserted.
aborted()     { repeat 60 abort_request b /big.bin; }

# Enough threads: these MPMs close keep-alive connections when all threads of a child are
# busy.
THREADS=(-t 'StartServers 2' -t 'ServerLimit 8' -t 'ThreadsPerChild 16' -t 'ThreadLimit 16' -t 'MinSpareThreads 1'
  -t 'MaxSpareThreads 64' -t 'MaxRequestWorkers 64')
PROCESSES=(-t 'StartServers 24' -t 'MinSpareServers 8' -t 'MaxSpareServers 64' -t 'MaxRequestWorkers 64')

ten_thousand_on() { # <mpm>
  local through=$BATS_TEST_TMPDIR/through requests size=("${THREADS[@]}")
  [[ $1 != prefork ]] || size=("${PROCESSES[@]}")
  start_httpd -m "$1" "${size[@]}" 'VhostLimit On' -v 'a ErrorDocument 404 /page.html'
  counts_as 2860 a all_answered
  in_background aborted bulk bulk >"$through"
  wait_until 30 status_at_least a requests 4000
  graceful_httpd
  wait
  settles a running 0
  settles b running 0
  # The restart closes connections. A request on such a connection was counted once or
  # never read.
  requests=$(status_of a requests)
  at_most "$requests" $((3 * 2860)) "requests sent"
  at_least "$requests" $((2860 + $(total <"$through"))) "requests that were answered"
  counts_as 2860 a all_answered
  is "$(status_of a refused)" 0
  wait_until 20 logged_as_often_as_counted a
  is "$(status_of b requests)" 60 "aborted requests"
}

logged_as_often_as_counted() { is "$(access_log "$1" | wc -l)" "$(status_of "$1" requests)" "lines in the log"; }

total()        { awk '{ n += $1 } END { print n + 0 }'; }
all_answered() { is "$(bulk | total)" 2860 "answers"; }

in_background() { # <command>...
  local c
  for c; do "$c" 3>&- 4>&- & done
}

@test "on each MPM the running count is 0 after ten thousand requests of all kinds" {
  requires ab
  on_each_mpm ten_thousand_on
}
