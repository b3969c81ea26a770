#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Queued requests: their order, their timeout, and how other requests are served meanwhile.

load lib/live
load lib/control

log_line() { wait_until 20 access_log_has "$1" "$2"; }                   # <vhost> <regular expression>
access_log_has() { grep -Eq -- "$2" <<<"$(access_log "$1")"; }

waits_and_is_served_on() { # <mpm>
  start_httpd -m "$1" 'VhostLimit On' -v 'a VhostLimitConcurrency 2'
  hold_request one; hold_request two
  line_up a /page.html
  is "$(status_of a running) $(status_of a waiting) $(status_of a refused)" '2 1 0'
  release_request one
  is "$(answer_of pagehtml)" 200
  is "$(cat "$HTTPD_ROOT/hold/pagehtml.body")" 'page of a'
  release_request two
  settles a waiting 0
  is "$(status_of a requests) $(status_of a queued) $(status_of a refused)" '3 1 0'
}

@test "on each MPM a third request waits with VhostLimitConcurrency 2, and is served when a slot is free" {
  on_each_mpm waits_and_is_served_on
}

@test "requests of a vhost are served in order of arrival" {
  start_httpd "${ONE_CHILD[@]}" 'VhostLimit On' -v 'a VhostLimitConcurrency 1'
  hold_request one
  line_up a '/cgi/hold.sh?n1' '/cgi/hold.sh?n2' '/cgi/hold.sh?n3' '/cgi/hold.sh?n4' '/cgi/hold.sh?n5'
  release_request one
  is "$(answer_of cgiholdshn5)" 200
  settles a running 0
  is "$(begun n.)" 'n1 n2 n3 n4 n5'
}

@test "a request that waits longer than the queue timeout is refused with the ErrorDocument" {
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 10 700ms' \
    -v 'a ErrorDocument 503 /sorry.html' -v 'a VhostLimitRetryAfter 7'
  hold_request one
  local took
  took=$(milliseconds get a /page.html)
  is "$(answer_body) $(answer_head Retry-After)" 'sorry from a 7'
  at_least "$took" 650 milliseconds
  at_most "$took" 9000 "milliseconds, 10 s being the default"
  is "$(status_of a waiting) $(status_of a refused)" '0 1'
  log_line a '^GET /[a-z]+\.html 503 action=refused reason=timeout wait=[1-9][0-9]{5,6} '
}

@test "the access log has the waiting time of a served request" {
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1'
  hold_request one
  line_up a /page.html
  release_request one
  is "$(answer_of pagehtml)" 200
  log_line a '^GET /page\.html 200 action=pass reason=- wait=[1-9][0-9]{3,} '
  settles a waiting 0
  at_least "$(status_of a wait_us)" 1000 wait_us
  at_least "$(status_of a wait_p99_us)" 1000 wait_p99_us
  log_line a '^GET /cgi/hold\.sh 200 action=pass reason=- wait=0 '
}

@test "a client that closes while its request is queued is no longer counted" {
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1'
  hold_request one
  begin_request gone a /page.html --max-time 1 -H 'Via: 1.1 proxy'
  settles a waiting 1
  is "$(answer_of gone)" 000
  line_up a /sub/
  release_request one
  is "$(answer_of sub)" 200
  settles a running 0
  settles a waiting 0
}

@test "connections that close without a byte are not queued" {
  start_httpd 'VhostLimit On' 'VhostLimitConcurrency 1' 'VhostLimitQueue 5'
  hold_request one
  repeat 6 packets @close
  settles a waiting 0
  line_up a /page.html
  release_request one
  is "$(answer_of pagehtml)" 200
}

@test "responses keep connections alive while other requests of the vhost are queued" {
  start_httpd "${ONE_CHILD[@]}" 'VhostLimit On' -v 'a VhostLimitConcurrency 1'
  hold_request one
  line_up a /page.html /sub/
  release_request one
  is "$(answer_of pagehtml) $(answer_of sub)" '200 200'
  is "$(head_of pagehtml Connection)" '' "while /sub/ was queued"
  is "$(head_of sub Connection)" '' "with an empty queue"
}

# Programs that sleep do not use up a lease, so the second request of the connection may run at
# once or wait (530 tests a pipeline that computes).
@test "requests that are queued beside a keep-alive connection are answered in order" {
  start_httpd "${ONE_CHILD[@]}" 'VhostLimit On' 'VhostLimitSlots 1' 'VhostLimitCgroup off'
  hold_request one a
  begin_request two a '/cgi/hold.sh?n[1-2]'
  settles a waiting 1
  line_up a '/cgi/hold.sh?n3' '/cgi/hold.sh?n4'
  release_request one
  is "$(answer_of cgiholdshn4) $(answer_of two | xargs)" '200 200 200'
  settles a running 0
  like "$(begun n.)" '^n1 .*n3.* n4'
}

@test "with one slot for the server, a request of another vhost waits" {
  start_httpd 'VhostLimit On' 'VhostLimitSlots 1'
  is "$(status_json | jq .slots)" 1
  hold_request one a
  line_up b /page.html
  is "$(status_of b running) $(status_of b waiting)" '0 1'
  release_request one
  is "$(answer_of pagehtml)" 200
}

@test "requests are not queued in a vhost that is Off, in DryRun, or has no queue" {
  start_httpd 'VhostLimit On' 'VhostLimitSlots 1' -v 'b VhostLimit Off' -v 'c VhostLimit DryRun' \
    -o 'a b c d' -v 'd VhostLimitQueue 0'
  hold_request one a
  line_up a /page.html
  is "$(get b / -m 5) $(get c / -m 5) $(get d / -m 5)" '200 200 200'
  is "$(status_of c would_queue) $(status_of c waiting) $(status_of d waiting)" '1 0 0'
  is "$(status_of a waiting)" 1
}

@test "a vhost at its concurrency limit does not delay another vhost while slots are free" {
  start_httpd 'VhostLimit On' 'VhostLimitSlots 4' -v 'a VhostLimitConcurrency 1'
  hold_request one a
  line_up a /page.html /sub/
  is "$(get b / -m 5) $(get c / -m 5)" '200 200'
  is "$(status_of a waiting)" 2
}

@test "a graceful restart with a longer queue admits deferred connections to it" {
  start_httpd 'VhostLimit On' 'VhostLimitConcurrency 1' 'VhostLimitQueue 1'
  hold_request one b
  line_up b /page.html
  begin_request deferred b /
  settles b deferred 1
  configure_httpd 'VhostLimit On' 'VhostLimitConcurrency 1' 'VhostLimitQueue 2'
  graceful_httpd
  settles b waiting 2
  release_request one
  is "$(answer_of pagehtml) $(answer_of deferred)" '200 200'
}

# ---- shares ------------------------------------------------------------------

# All requests are queued before the first one runs, so the order of service is the
# scheduler's alone. Prints the share of a in the first requests, in percent.
share_of_a_in() { # <requests> <slots, that are held>
  local i of_a
  for ((i = 1; i <= $2; i++)); do release_request "held$i"; done
  is "$(crowd_got a) $(crowd_got b)" "$crowds" "answers" >&2 || return
  of_a=$(grep -E '^[ab]\.test ' "$HTTPD_ROOT/logs/access.log" | sed -n "1,${1}p" | grep -c '^a\.test ')
  echo $((100 * of_a / $1))
}

equal_shares_on() { # <mpm>
  local share crowds='40 200 200 200'
  start_httpd -m "$1" 'VhostLimit On' 'VhostLimitSlots 2' "VhostLimitQueue 1000 $((40 * SLOWER))s"
  hold_request held1 c; hold_request held2 c
  begin_crowd b 200 b /page.html; settles b waiting 200
  begin_crowd a 40 a /page.html; settles a waiting 40
  share=$(share_of_a_in 60 2)
  # CPU time is shared, not pages. The first page of a process costs more than the next
  # ones. In proportion to the connections the share of a would be 17.
  at_least "$share" 30 "share of a in the first 60, percent"
  at_most "$share" 75 "share of a in the first 60, percent"
  is "$(status_of a refused) $(status_of b refused)" '0 0'
}

@test "on each MPM forty connections get as much as two hundred of another site" {
  on_each_mpm equal_shares_on
}

@test "weights of 300 and 100 give a site three requests to one" {
  local share crowds='100 200 100 200'
  start_httpd 'VhostLimit On' 'VhostLimitSlots 1' "VhostLimitQueue 1000 $((40 * SLOWER))s" -v 'a VhostLimitWeight 300' -v 'b VhostLimitWeight 100'
  hold_request held1 c
  begin_crowd b 100 b /page.html; settles b waiting 100
  begin_crowd a 100 a /page.html; settles a waiting 100
  share=$(share_of_a_in 120 1)
  at_least "$share" 66 "share of a in the first 120, percent (75 is right)"
  at_most "$share" 83 "share of a in the first 120, percent (75 is right)"
}

@test "one vhost gets four of five slots, and explain names the reason" {
  start_httpd "${ONE_CHILD[@]}" 'VhostLimit On' 'VhostLimitSlots 5'
  local i
  for i in one two three four; do hold_request "$i"; done
  begin_request five a /page.html
  settles a waiting 1
  is "$(get b /page.html)" 200
  is "$(status_of a running) $(status_of a waiting)" '4 1'
  is "$(ctl explain --json a.test | jq -c .causes)" '["most"]'
  like "$(ctl explain a.test)" 'The site holds 4.0 of 5 slots .4 running.*The last 1.0 slots are kept'
  release_request one
  is "$(answer_of five)" 200
}
