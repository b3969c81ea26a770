#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# HTTP/2: each stream is a request.

load lib/live

setup() { requires mod_http2; }

start_h2() { start_httpd -l http2 'Protocols h2c http/1.1' 'VhostLimit On' "$@"; }

h2() { # <vhost> <path> [curl argument]...
  get "$1" "$2" --http2-prior-knowledge "${@:3}"
}

@test "a request over HTTP/2 is counted once and ends" {
  requires curl_http2
  start_h2
  counts_as 1 a h2 a /page.html
  like "$(head -n 1 "$BATS_TEST_TMPDIR/head")" '^HTTP/2 200'
}

@test "concurrent streams of one connection are counted separately" {
  requires h2load
  start_h2
  counts_as 200 a h2load_of 200 a
}
h2load_of() { # <requests> <vhost>
  local report
  report=$(h2load -n "$1" -c 2 -m 20 --connect-to="127.0.0.1:$(httpd_port)" "$(url "$2" /page.html)")
  like "$report" "$1 2xx"
}

@test "a stream beyond the limit is refused, and other streams of its connection continue" {
  requires curl_http2
  start_h2 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitRetryAfter 8'
  hold_request one a --http2-prior-knowledge
  is "$(h2 a /) $(answer_head retry-after)" '503 8'
  is "$(h2 b /)" 200
  release_request one
  is "$(answer_of one)" 200
  settles a running 0
}

@test "an HTTP/2 connection holds no slot in any vhost" {
  requires curl_http2
  start_h2 'VhostLimitConcurrency 1'
  is "$(h2 a / -m 5) $(h2 b / -m 5)" '200 200'
  hold_request one a
  is "$(h2 b / -m 5) $(status_of a waiting)" '200 0'
}

@test "the slot of a stream that the client resets is released" {
  requires curl_http2
  start_h2
  hold_request one a --http2-prior-knowledge --max-time 1
  is "$(answer_of one)" 000
  release_request one
  settles a running 0
}

few_threads() { # <threads>
  printf '%s\n' -t "ThreadsPerChild $1" -t "ThreadLimit $1" -t 'StartServers 1' -t 'ServerLimit 1' \
    -t "MaxRequestWorkers $1" -t "MinSpareThreads 1" -t "MaxSpareThreads $1"
}

# The first connections use all worker threads, and the MPM accepts no further ones until
# they have been answered.
@test "streams are granted slots in a child whose threads all serve HTTP/2 connections" {
  requires h2load
  local report threads
  mapfile -t threads < <(few_threads 4)
  start_h2 "${threads[@]}" 'VhostLimitSlots 1' 'VhostLimitQueue 1000 60s'
  report=$(timeout $((30 * SLOWER)) h2load -n 160 -c 16 -m 10 --connect-to="127.0.0.1:$(httpd_port)" "$(url a /cgi/nap.sh)")
  like "$report" 'status codes: 160 2xx'
}

@test "streams beyond the concurrency of their site wait with few threads of mod_http2" {
  requires h2load
  start_h2 -v 'a VhostLimitConcurrency 2' 'VhostLimitSlots 2' 'VhostLimitQueue 1000 60s' 'H2MaxWorkers 8' \
    -t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadsPerChild 8' -t 'MaxRequestWorkers 8' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 8'
  is "$(statuses_of_100)" '100 2xx'
  is "$(status_of a refused)" 0
}
# As many streams at once as a browser may open.
statuses_of_100() {
  timeout $((30 * SLOWER)) h2load -n 100 -c 1 -m 100 --connect-to="127.0.0.1:$(httpd_port)" "$(url a /cgi/nap.sh)" |
    sed -n 's/^status codes: \([0-9]* 2xx\).*/\1/p'
}
