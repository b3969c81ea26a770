#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# VhostLimitConcurrency without a queue: which requests are refused, and the responses.
# t/500 tests queued requests.

load lib/live

start_capped() { start_httpd 'VhostLimit On' 'VhostLimitQueue 0' "$@"; }

@test "a third request is refused with VhostLimitConcurrency 2" {
  start_capped -v 'a VhostLimitConcurrency 2'
  hold_request one; hold_request two
  is "$(status_of a running)" 2
  is "$(get a /)" 503
  is "$(status_of a refused)" 1 refused
  is "$(status_of a running)" 2 running
}

@test "a released slot is free at once" {
  start_capped -v 'a VhostLimitConcurrency 1'
  hold_request one
  is "$(get a /)" 503
  release_request one
  settles a running 0
  is "$(get a /)" 200
}

@test "a refused request holds no slot and is not counted as admitted" {
  start_capped -v 'a VhostLimitConcurrency 1'
  hold_request one
  local i
  for i in 1 2 3 4 5; do is "$(get a /)" 503; done
  is "$(status_of a requests) $(status_of a refused) $(status_of a running)" '1 5 1'
}

@test "a vhost at its concurrency limit does not affect another vhost" {
  start_capped 'VhostLimitConcurrency 1'
  hold_request one a
  is "$(get a /)" 503
  is "$(get b /) $(get c /)" '200 200'
  is "$(status_of b refused)" 0
}

@test "requests without a concurrency limit run at once" {
  start_httpd 'VhostLimit On'
  local i
  for i in 1 2 3 4 5 6 7 8 9 10 11 12; do hold_request "h$i"; done
  is "$(status_of a running)" 12
  is "$(status_of a refused)" 0
}

@test "the concurrency limit is exact across child processes" {
  start_capped 'VhostLimitConcurrency 10' -t 'StartServers 4' -t 'ServerLimit 4' \
    -t 'ThreadLimit 4' -t 'ThreadsPerChild 4' -t 'MaxRequestWorkers 16' -t 'MinSpareThreads 4' \
    -t 'MaxSpareThreads 16'
  local i
  for i in 1 2 3 4 5 6 7 8 9 10; do hold_request "h$i"; done
  at_least "$(for i in 1 2 3 4 5 6 7 8 9 10; do holder_of "h$i"; done | sort -u | wc -l)" 3 "children in use"
  is "$(get a /) $(get a /) $(get b /)" '503 503 200'
}

@test "of twenty-four simultaneous requests four run with VhostLimitConcurrency 4" {
  start_capped -v 'a VhostLimitConcurrency 4' -v 'a VhostLimitStatusCode 429'
  local i
  mkfifo -m 666 "$HTTPD_ROOT/hold/x.fifo"
  for i in {1..24}; do begin_request "r$i" a '/cgi/hold.sh?x'; done
  wait_until 10 twenty_refused
  is "$(status_of a running) $(status_of a refused)" '4 20'
}
twenty_refused() { [[ $(cat "$HTTPD_ROOT/hold"/r*.code 2>/dev/null | grep -c 429) == 20 ]]; }

@test "VhostLimitStatusCode sets the status of a refusal" {
  start_capped 'VhostLimitConcurrency 1' -v 'a VhostLimitStatusCode 429' \
    -v 'b VhostLimitStatusCode 508'
  hold_request one a; hold_request two b; hold_request three c
  is "$(get a /) $(get b /) $(get c /)" '429 508 503'
}

@test "Retry-After is the configured number, absent with off, and in seconds with auto" {
  start_capped 'VhostLimitConcurrency 1' -v 'a VhostLimitRetryAfter 77' \
    -v 'b VhostLimitRetryAfter off' -v 'c VhostLimitRetryAfter auto'
  hold_request one a; hold_request two b; hold_request three c
  is "$(get a /) $(answer_head Retry-After)" '503 77'
  is "$(get b /) $(answer_head Retry-After)" '503 '
  is "$(get c /)" 503
  like "$(answer_head Retry-After)" '^[1-9][0-9]{0,4}$'
}

@test "a response that is not a refusal has no Retry-After" {
  start_httpd 'VhostLimit On' 'VhostLimitRetryAfter 77'
  is "$(get a /) $(answer_head Retry-After)" '200 '
}

@test "a local ErrorDocument is the body of a refusal, and Retry-After is kept" {
  start_capped -v 'a VhostLimitConcurrency 1' -v 'a ErrorDocument 503 /sorry.html' \
    -v 'a VhostLimitRetryAfter 9'
  hold_request one
  is "$(get a /)" 503
  is "$(answer_body)" 'sorry from a'
  is "$(answer_head Retry-After)" 9
  is "$(status_of a running) $(status_of a refused) $(status_of a requests)" '1 1 1'
}

@test "an ErrorDocument with a text is the body of a refusal" {
  start_capped -v 'a VhostLimitConcurrency 1' -v 'a ErrorDocument 503 "come again"'
  hold_request one
  is "$(get a /) $(answer_body)" '503 come again'
}

@test "a refusal without Connection: close keeps its connection open" {
  start_capped -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitStatusCode 429'
  hold_request one
  is "$(get a /)" 429
  [[ $(answer_head Connection) == close ]] || is "$(pipeline a 3 / | xargs)" '429 429 429'
}

@test "requests of a connection are served after a slot has been released" {
  start_capped -v 'a VhostLimitConcurrency 1'
  hold_request one
  release_request one
  settles a running 0
  is "$(pipeline a 20 / | sort | uniq -c | xargs)" '20 200'
}

@test "a refusal with 503 closes the connection, as each 503 of Apache does" {
  start_capped -v 'a VhostLimitConcurrency 1'
  hold_request one
  is "$(pipeline a 3 / | xargs)" '503'
  is "$(get a /) $(answer_head Connection)" '503 close'
}

@test "a refused POST leaves the next request on its connection intact" {
  start_capped -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitStatusCode 429'
  hold_request one
  local two='POST /cgi/echo.sh HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbodyGET / HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n'
  like "$(printf '%b' "$two" | raw | sed -n 's,^.*HTTP/1.1 \([0-9]*\) .*,\1,p' | xargs)" '^429( 200)?$'
}

@test "subrequests of a page do not count against a concurrency limit of one" {
  start_capped 'VhostLimitConcurrency 1' -l include \
    -v 'a AddOutputFilter INCLUDES .shtml' -v 'a ErrorDocument 404 /page.html'
  is "$(get a /ssi.shtml) $(answer_body | tr -d '\n')" '200 [page of apage of a]'
  is "$(get a /nope) $(answer_body)" '404 page of a'
  is "$(status_of a refused)" 0
}

@test "a proxied request to a vhost at its limit gets the refusal of that vhost" {
  start_capped -l proxy -l proxy_http 'VhostLimitConcurrency 1' \
    'VhostLimitStatusCode 429' -v "b ProxyPass /x/ http://127.0.0.2:$(httpd_port)/"
  hold_request one main
  is "$(get b /x/page.html)" 429
  is "$(status_of b refused) $(status_of main refused)" '0 1'
}
