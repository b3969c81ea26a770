#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Clients that close while their request is queued: the request does not run and leaves the
# queue. A client that has only stopped sending is served.

load lib/live
load lib/tls
load lib/clock

# Without this line a client on this machine that closes soon has started a job.
VIA='Via: 1.1 proxy\r\n'

# Opens connections, each of which ends with the step after its request has been sent.
leave() { # <number> <step> <text>
  local n pids=()
  for ((n = 0; n < $1; n++)); do packets "$3" @100 "$2" 3>&- 4>&- & pids+=($!); done
  wait "${pids[@]}"
}

ran() { find "$HTTPD_ROOT/hold" -name 'ran-*.in' | wc -l; }   # how often the program of these requests was started

# Twenty-five complete requests of clients that close, and a queue of twenty.
nothing_runs_on() { # <mpm> <step>
  start_httpd -m "$1" 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 20 60s'
  hold_request one
  leave 25 "$2" "GET /cgi/hold.sh?ran-1 HTTP/1.1\r\nHost: a.test\r\n$VIA\r\n"
  settles a waiting 0
  is "$(status_of a gone) $(status_of a deferred)" '25 0'
  begin_request live a /page.html
  settles a waiting 1
  release_request one
  is "$(answer_of live)" 200
  settles a running 0
  is "$(status_of a requests) $(ran)" '2 0'
}

@test "on each MPM requests of clients that close leave the queue and do not run" {
  on_each_mpm nothing_runs_on @close
}

@test "event: requests of clients that reset their connection leave the queue and do not run" {
  nothing_runs_on event @reset
}

served_all_the_same() { # <mpm>
  start_httpd -m "$1" 'VhostLimit On' -v 'a VhostLimitConcurrency 1'
  hold_request one
  leave 3 @close 'GET /page.html HTTP/1.1\r\nHost: a.test\r\n\r\n'
  time_passes 200
  is "$(status_of a waiting) $(status_of a gone)" '3 0'
  release_request one
  settles a requests 4
}

@test "on each MPM a complete request of a program on this machine that closes soon is served" {
  on_each_mpm served_all_the_same
}

@test "a keep-alive connection whose client closes leaves the queue" {
  requires event
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'b VhostLimitConcurrency 1'
  local file=$BATS_TEST_TMPDIR/go
  hold_request one b
  begin_request other b /page.html      # while a request is queued, connections return to the acceptor
  settles b waiting 1
  packets 'GET /page.html HTTP/1.1\r\nHost: a.test\r\n\r\n' '@until:page of a' "@when:$file" \
    'GET /cgi/hold.sh?ran-1 HTTP/1.1\r\nHost: a.test\r\n\r\n' @1500 @close 3>&- 4>&- &
  local client=$!
  settles a requests 1
  hold_request two
  touch "$file"
  settles a waiting 1
  wait "$client"
  settles a waiting 0
  is "$(status_of a gone)" 1
  # Apache has already taken over the connection and its request.
  wait_until 20 logged_gone a
  release_request one; release_request two
  is "$(answer_of other)" 200
  settles a running 0
  is "$(ran)" 0
}

logged_gone() { grep -qE '^GET /cgi/hold\.sh 503 action=gone reason=gone ' < <(access_log "$1"); }  # <vhost>

half_closed() { # <name> <request line>
  (packets "$2\r\nHost: a.test\r\nConnection: close\r\n\r\n" @half >"$HTTPD_ROOT/hold/$1.half") 3>&- 4>&- &
}

half_closed_at_server() { # <number>
  (($(ss -Htn state close-wait "sport = :$(httpd_port)" | wc -l) == $1))
}

@test "a client that has only stopped sending is served, over HTTP/1.1 and HTTP/1.0" {
  requires cc
  start_with_clock 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 20 60s'
  hold_request one
  half_closed new "GET /page.html HTTP/1.1\r\n${VIA%????}"
  half_closed old 'GET /page.html HTTP/1.0'
  settles a waiting 2
  # A client that has been queued for less than 10 ms is not checked.
  wait_until 10 half_closed_at_server 2
  pass_time 1
  release_request one
  wait_until 10 grep -q 'page of a' "$HTTPD_ROOT/hold/new.half"
  wait_until 10 grep -q 'page of a' "$HTTPD_ROOT/hold/old.half"
  like "$(head -n 1 "$HTTPD_ROOT/hold/new.half")" '^HTTP/1.1 100 Continue'
  is "$(grep -c '^HTTP/1.1 200 ' "$HTTPD_ROOT/hold/new.half")" 1
  like "$(head -n 1 "$HTTPD_ROOT/hold/old.half")" '^HTTP/1.1 200 '
  is "$(status_of a gone)" 0
}

@test "a deferred connection and a TLS connection leave the queue when their clients close" {
  requires openssl mod_ssl
  start_tls 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 1 60s' \
    's: VhostLimitConcurrency 1' 's: VhostLimitQueue 20 60s'
  hold_request one; hold_request two s
  begin_request first a /page.html
  settles a waiting 1
  leave 5 @close "GET / HTTP/1.1\r\nHost: a.test\r\n$VIA\r\n"
  settles a gone 5
  is "$(status_of a waiting) $(status_of a deferred)" '1 0'
  repeat 3 tls_packets "$(client_hello s.test)" @100 @close
  tls_packets "$(client_hello s.test)" @half
  settles s gone 4
  is "$(status_of s waiting)" 0
  release_request one; release_request two
  is "$(answer_of first)" 200
}
