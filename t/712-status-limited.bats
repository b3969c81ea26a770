#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# One line in the log when a vhost begins and one when it ceases to be limited.

load lib/live
load lib/clock

setup() { requires cc; }

limited_lines() { grep -oE "VL001[12]: site $1\.test.*" "$HTTPD_ROOT/logs/error.log" || :; }  # <vhost>
said()          { (($(limited_lines "$1" | wc -l) >= $2)); }                                    # <vhost> <lines>

@test "a vhost that is refused says so once, with the cause and numbers, and once when it is over" {
  start_with_clock 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  hold_request one
  repeat 3 get a / >/dev/null
  wait_until 15 said a 1
  like "$(limited_lines a)" '^VL0011: site a\.test: limited by VhostLimitConcurrency 1: 1 running, 0 queued, 0 deferred, [1-3] refused in [0-9]+ s\. Raise VhostLimitConcurrency if the site may use more$'
  at_least "$(status_of a limited_s)" 1 "seconds"
  is "$(status_of b limited_s)" 0
  repeat 3 get a / >/dev/null
  release_request one
  over_after_quiet_time() { pass_time 11; said a 2; }
  wait_until 15 over_after_quiet_time
  is "$(limited_lines a | wc -l)" 2 "lines"
  like "$(limited_lines a | tail -n 1)" '^VL0012: site a\.test: no longer limited after [0-9]+ s: 1 requests admitted, 0 of them queued first, 6 refused$'
  settles a limited_s 0
  is "$(limited_lines b)" ''
}

@test "a vhost whose line does not get shorter is limited, by its share; its neighbour is not" {
  requires event
  start_with_clock 'VhostLimit On' 'VhostLimitSlots 1' 'VhostLimitQueue 100 1h'
  hold_request one a
  begin_request waits a /page.html
  settles a waiting 1
  limited_after_a_second() { pass_time 1; said a 1; }
  wait_until 10 limited_after_a_second
  like "$(limited_lines a)" 'VL0011: site a\.test: limited by its share of the server \(1 slots\): 1 running, 1 queued, 0 deferred, 0 refused in [0-9]+ s\. Raise VhostLimitWeight if the site may use more$'
  release_request one
  is "$(answer_of waits) $(limited_lines b)" '200 '
}

@test "prefork: the child that accepts looks" {
  requires prefork
  start_with_clock -m prefork 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  hold_request one
  wait_until 15 refused_as_time_passes
  like "$(limited_lines a)" 'limited by VhostLimitConcurrency 1: 1 running'
  isnt "$(looked)" "$(httpd_pid)" "process that looked"
}

refused_as_time_passes() { pass_time 1; get a / >/dev/null; said a 1; }

# The process that wrote the line.
looked() { sed -nE 's/.*\[pid ([0-9]+)[^]]*\].*VL0011.*/\1/p' "$HTTPD_ROOT/logs/error.log" | sed -n 1p; }

# Its monitor hook runs every ten seconds, or when ten children have ended.
@test "prefork, several listener buckets: no child keeps time, and the parent looks" {
  requires prefork
  (($(nproc) > 1)) || skip "one processor, one bucket"
  start_with_clock -m prefork 'ListenCoresBucketsRatio 1' 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  hold_request one
  refused_once_more() {
    local idle
    pass_time 1
    get a / >/dev/null
    idle=$(httpd_children | grep -vx "$(holder_of one)" | sed -n 1p) && kill -TERM "$idle"
    said a 1
  }
  wait_until 40 refused_once_more
  like "$(limited_lines a)" 'limited by VhostLimitConcurrency 1: 1 running'
  is "$(looked)" "$(httpd_pid)" "process that looked"
}
