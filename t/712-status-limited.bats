#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The log has one line when a vhost begins to be limited and one when it ceases to be.

load lib/live
load lib/clock

setup() { requires cc; }

limited_lines() { grep -oE "VL001[12]: site $1\.test.*" "$HTTPD_ROOT/logs/error.log" || :; }  # <vhost>
has_lines()     { (($(limited_lines "$1" | wc -l) >= $2)); }                                    # <vhost> <lines>

@test "a refused vhost is logged once, with cause and numbers, and once at its end" {
  start_with_clock 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  hold_request one
  repeat 3 get a / >/dev/null
  wait_until 15 has_lines a 1
  like "$(limited_lines a)" '^VL0011: site a\.test: limited by VhostLimitConcurrency 1: 1 running, 0 queued, 0 deferred, [1-3] refused in [0-9]+ s\. Raise VhostLimitConcurrency if the site may use more$'
  at_least "$(status_of a limited_s)" 1 "seconds"
  is "$(status_of b limited_s)" 0
  repeat 3 get a / >/dev/null
  release_request one
  over_after_quiet_time() { pass_time 11; has_lines a 2; }
  wait_until 15 over_after_quiet_time
  is "$(limited_lines a | wc -l)" 2 "lines"
  like "$(limited_lines a | tail -n 1)" '^VL0012: site a\.test: no longer limited after [0-9]+ s: 1 requests admitted, 0 of them queued first, 6 refused$'
  settles a limited_s 0
  is "$(limited_lines b)" ''
}

@test "a vhost with a persistent backlog is logged as limited by its share, others are not" {
  requires event
  start_with_clock 'VhostLimit On' 'VhostLimitSlots 1' 'VhostLimitQueue 100 1h'
  hold_request one a
  begin_request waits a /page.html
  settles a waiting 1
  limited_after_a_second() { pass_time 1; has_lines a 1; }
  wait_until 10 limited_after_a_second
  like "$(limited_lines a)" 'VL0011: site a\.test: limited by its share of the server \(1 slots\): 1 running, 1 queued, 0 deferred, 0 refused in [0-9]+ s\. Raise VhostLimitWeight if the site may use more$'
  release_request one
  is "$(answer_of waits) $(limited_lines b)" '200 '
}

@test "prefork: the acceptor logs limited vhosts" {
  requires prefork
  start_with_clock -m prefork 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  hold_request one
  wait_until 15 refused_as_time_passes
  like "$(limited_lines a)" 'limited by VhostLimitConcurrency 1: 1 running'
  isnt "$(process_that_logged)" "$(httpd_pid)" "process that logged"
}

refused_as_time_passes() { pass_time 1; get a / >/dev/null; has_lines a 1; }

# The process that wrote the line.
process_that_logged() { sed -nE 's/.*\[pid ([0-9]+)[^]]*\].*VL0011.*/\1/p' "$HTTPD_ROOT/logs/error.log" | sed -n 1p; }

# The parent's monitor hook runs every ten seconds, or when ten children have ended.
@test "prefork without an acceptor: the parent process logs limited vhosts" {
  requires prefork
  start_with_clock -m prefork "Listen 127.0.0.1:$(free_port other) other" 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  hold_request one
  refused_once_more() {
    local idle
    pass_time 1
    get a / >/dev/null
    idle=$(httpd_children | grep -vx "$(holder_of one)" | sed -n 1p) && kill -TERM "$idle"
    has_lines a 1
  }
  wait_until 40 refused_once_more
  like "$(limited_lines a)" 'limited by VhostLimitConcurrency 1: 1 running'
  is "$(process_that_logged)" "$(httpd_pid)" "process that logged"
}
