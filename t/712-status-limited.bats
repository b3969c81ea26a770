#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# One line in the log when a vhost begins and one when it ceases to be limited.

load lib/live

limited_lines() { grep -oE "VL001[12]: vhost $1\.test.*" "$HTTPD_ROOT/logs/error.log" || :; }  # <vhost>
said()          { (($(limited_lines "$1" | wc -l) >= $2)); }                                    # <vhost> <lines>

@test "a vhost that is refused says so once, with the cause and numbers, and once when it is over" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  hold_request one
  repeat 3 get a / >/dev/null
  wait_until 15 said a 1
  like "$(limited_lines a)" '^VL0011: vhost a\.test:[0-9]+: limited by VhostLimitConcurrency 1: 1 running, 0 waiting, 0 beyond the queue, [1-3] refused in [0-9]+ s$'
  at_least "$(status_of a limited_s)" 1 "seconds"
  is "$(status_of b limited_s)" 0
  repeat 3 get a / >/dev/null
  release_request one
  wait_until 30 said a 2
  is "$(limited_lines a | wc -l)" 2 "lines"
  like "$(limited_lines a | tail -n 1)" '^VL0012: vhost a\.test:[0-9]+: limited no more, was for [0-9]+ s: 1 requests were served, 0 of them had waited, and 6 were refused$'
  settles a limited_s 0
  is "$(limited_lines b)" ''
}

@test "a vhost whose line does not get shorter is limited, by its share; its neighbour is not" {
  requires event
  start_httpd 'VhostLimit On' 'VhostLimitSlots 1'
  hold_request one a
  begin_request waits a /page.html
  wait_until 10 said a 1
  like "$(limited_lines a)" 'VL0011: vhost a\.test:[0-9]+: limited by its share of 1 slots: 1 running, 1 waiting, 0 beyond the queue, 0 refused in [0-9]+ s$'
  release_request one
  is "$(answer_of waits) $(limited_lines b)" '200 '
}

@test "prefork: the parent looks" {
  requires prefork
  start_httpd -m prefork 'VhostLimit On' -v 'a VhostLimitConcurrency 1'
  hold_request one
  refused_once_more() { get a / >/dev/null; said a 1; }
  wait_until 40 refused_once_more
  like "$(limited_lines a)" 'limited by VhostLimitConcurrency 1: 1 running'
}
