#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The two states of the server: dormant while nothing is contended, and engaged.

load lib/live

setup() { unset VHOSTLIMIT_TEST_STATE; }

state() { status_json | jq -r "[.state.is, .state.why] | join(\" \")"; }
is_now() { [[ $(state) == "$1"* ]]; }                   # <state>
changes() { status_json | jq .state.changes; }
# Prints how often the threads of the server's processes have been switched to.
switches() { local pid; for pid in $(httpd_children) $(pgrep -P "$(httpd_pid)" -x vl-sampler); do cat "/proc/$pid/task/"*/status; done | awk '/ctxt_switches/ { n += $2 } END { print n }'; }

begins_dormant_on() { # <mpm>
  start_httpd -m "$1" 'VhostLimit On'
  is "$(state)" 'dormant slots'
  for _ in {1..30}; do get a /page.html; done >/dev/null
  is "$(state) $(changes)" 'dormant slots 0'
  is "$(status_of a requests)" 30
  begin_crowd flood 60 a /cgi/nap.sh
  wait_until 10 is_now engaged
  is "$(get b /page.html)" 200
  is "$(crowd_got flood)" '60 200'
  wait_until 10 is_now dormant
  is "$(get a /page.html)" 200
}

@test "a server begins dormant, stays so while one request runs at a time, and is engaged during a flood" {
  on_each_mpm begins_dormant_on
}

@test "a dormant server charges a request that computes for long, and counts those that run" {
  start_httpd 'VhostLimit On'
  hold_request h
  is "$(status_of a running)" 1
  release_request h
  settles a running 0
  is "$(get a /cgi/burn.sh)" 200
  is "$(state)" 'dormant slots'
}

@test "requests that run when the server becomes engaged hold slots, and the next one waits" {
  start_httpd 'VhostLimit On' 'VhostLimitSlots 2'
  hold_request h1
  is "$(state)" 'dormant slots'
  hold_request h2 b
  begin_request late a /page.html
  wait_until 5 is_now 'engaged slots'
  settles a waiting 1
  is "$(status_of a running) $(status_of b running)" '1 1'
  release_request h2
  is "$(answer_of late)" 200
  release_all
  settles a running 0
  wait_until 10 is_now dormant
}

@test "of a flood, as many requests run before the server is engaged as there are slots" {
  local i
  start_httpd 'VhostLimit On' 'VhostLimitSlots 4'
  for i in {1..12}; do mkfifo -m 666 "$HTTPD_ROOT/hold/h$i.fifo"; begin_request "h$i" a "/cgi/hold.sh?h$i"; done
  settles a waiting 8
  is "$(status_of a running)" 4
  is_now engaged
  for i in {1..12}; do release_request "h$i"; done
  for i in {1..12}; do is "$(answer_of "h$i")" 200; done
  settles a running 0
}

@test "a site's concurrency holds in a dormant server" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 2'
  hold_request h1
  is "$(state)" 'dormant slots'
  hold_request h2
  is "$(get a /page.html) $(get b /page.html)" '503 200'
  is "$(state)" 'engaged limit'
  release_all
  is "$(answer_of h1) $(answer_of h2)" '200 200'
  wait_until 10 is_now dormant
}

@test "a site with a CPU cap engages the server" {
  start_httpd 'VhostLimit On' -v 'a VhostLimitCPU 50%'
  is "$(get b /page.html) $(state)" '200 dormant slots'
  is "$(get a /page.html) $(state)" '200 engaged limit'
}

@test "busy threads engage the server" {
  local i
  start_httpd "${ONE_CHILD[@]}" 'VhostLimit On' 'VhostLimitSlots 100'
  for i in {1..11}; do hold_request "h$i"; done
  is "$(state)" 'dormant slots'
  for i in {12..14}; do begin_request "h$i" b /page.html; done
  hold_request last
  wait_until 5 is_now 'engaged threads'
  release_all
  is "$(answer_of h14) $(answer_of last)" '200 200'
  settles a running 0
}

@test "a dormant server without requests sleeps, and has no process more than the sampler" {
  local before
  start_httpd 'VhostLimit On'
  get a /page.html >/dev/null
  time_passes 3000
  before=$(switches)
  time_passes 3000
  at_most $(($(switches) - before)) 3 "switches to the server's threads"
  is "$(pgrep -cx vl-rescue || :)" 0 "rescue processes"
}

@test "a dormant server stops its children at a graceful restart" {
  local old
  start_httpd 'VhostLimit On'
  old=$(httpd_children)
  graceful_httpd
  all_gone() { local pid; for pid in $old; do gone "$pid" || return; done; }
  wait_until 10 all_gone
  is "$(get a /page.html) $(state)" '200 dormant slots'
}

toggles_on() { # <mpm>
  local seconds=2 tuning=(-t 'StartServers 30' -t 'MinSpareServers 4' -t 'MaxSpareServers 40' -t 'ServerLimit 40' -t 'MaxRequestWorkers 40')
  ((${VL_LONG:-0} == 0)) || seconds=120
  toggle_state
  # With all workers busy Apache itself closes kept connections, and loses requests.
  [[ $1 == prefork ]] || tuning=(-t 'StartServers 2' -t 'ServerLimit 2' -t 'ThreadsPerChild 32' -t 'ThreadLimit 32'
    -t 'MaxRequestWorkers 64' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 64')
  start_httpd -m "$1" "${tuning[@]}" 'VhostLimit On' 'MaxKeepAliveRequests 100'
  ab -q -k -c 8 -t "$seconds" -n 1000000 -H 'Host: a.test' "http://127.0.0.1:$(httpd_port)/page.html" >"$BATS_TEST_TMPDIR/kept" & kept=$!
  ab -q -c 8 -t "$seconds" -n 1000000 -H 'Host: b.test' "http://127.0.0.1:$(httpd_port)/page.html" >"$BATS_TEST_TMPDIR/closed"
  wait "$kept"
  is "$(awk '/^Failed/ { n += $3 } /^Non-2xx/ { n += $3 } END { print n + 0 }' "$BATS_TEST_TMPDIR/kept" "$BATS_TEST_TMPDIR/closed")" 0 "failed requests"
  at_least "$(changes)" $((seconds * 9)) "changes"
  settles a running 0
  settles b running 0
}

@test "no request fails while the state changes ten times a second" {
  requires ab
  on_each_mpm toggles_on
}

# Returns 0 if the server has read what the client of its only connection has sent.
has_read() { [[ $(ss -Htn state established "sport = :$(httpd_port)" | awk '{ print $1 }') == 0 ]]; }

@test "a request that Apache has begun to read waits with its thread, and does not run when its client has gone" {
  local file=$BATS_TEST_TMPDIR/go client
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1'
  packets 'GET /cgi/hold.sh?ran-1 ' "@when:$file" 'HTTP/1.1\r\nHost: a.test\r\n\r\n' @500 @close 3>&- 4>&- &
  client=$!
  wait_until 5 has_read
  hold_request one
  touch "$file"
  settles a waiting 1
  wait "$client"
  release_request one
  settles a running 0
  is "$(status_of a requests) $(status_of a gone)" '1 1'
}

@test "a malformed request is counted once: one that has begun when the server becomes engaged, and one of a kept connection" {
  local file=$BATS_TEST_TMPDIR/go client
  start_httpd 'VhostLimit On' -v 'b VhostLimitConcurrency 1'
  packets 'gar' "@when:$file" 'bage\r\n\r\n' '@until:400 Bad Request' >/dev/null 3>&- 4>&- &
  client=$!
  wait_until 5 has_read
  hold_request one b
  begin_request two b /page.html
  settles b waiting 1
  is "$(state)" 'engaged limit'
  touch "$file"
  wait "$client"
  settles a requests 1
  like "$(packets 'GET /page.html HTTP/1.1\r\nHost: a.test\r\n\r\n' '@until:page of a' 'garbage\r\n\r\n' '@until:400 Bad Request')" 'page of a.*400 Bad Request'
  settles a requests 3
  release_request one
  is "$(answer_of one) $(answer_of two)" '200 200'
  is "$(status_of a requests)" 3
}
