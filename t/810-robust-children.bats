#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Children that die, and what they held.

load lib/live

export LOG_MAY_SAY='exit signal (Killed|Segmentation fault)'

# Requests held in more than one child; the pid of one of them goes to $victim.
hold_in_two_children() { # <number>
  local i
  for ((i = 1; i <= $1; i++)); do hold_request "h$i"; done
  at_least "$(holders "$1" | sort -u | wc -l)" 2 "children in use"
  victim=$(holder_of h1)
}

holders() { local i; for ((i = 1; i <= $1; i++)); do holder_of "h$i"; done; }   # <number>

a_child_dies() { # <mpm>
  start_httpd -m "$1" 'VhostLimit On' -v 'a VhostLimitConcurrency 12'
  local victim lost
  hold_in_two_children 12
  lost=$(holders 12 | grep -cx "$victim")
  kill -KILL "$victim"
  settles a running $((12 - lost))
  is "$(get a /)" 200 "a place of the dead is free"
}

@test "event: a killed child gives back what it held" {
  requires event
  a_child_dies event
}

@test "worker: a killed child gives back what it held" {
  requires worker
  a_child_dies worker
}

@test "prefork: a killed child gives back what it held" {
  requires prefork
  a_child_dies prefork
}

@test "a child that ends by a signal of its own fault gives back what it held" {
  start_httpd 'VhostLimit On'
  local victim lost
  hold_in_two_children 12
  lost=$(holders 12 | grep -cx "$victim")
  kill -SEGV "$victim"
  settles a running $((12 - lost))
}

@test "every child killed, again and again: the counts stay right" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 2'
  local round
  for round in 1 2 3 4; do
    hold_request "one$round"; hold_request "two$round"
    is "$(get a /)" 503
    httpd_children | xargs kill -KILL
    settles a running 0
  done
  is "$(get a /)" 200
  is "$(status_of a requests)" 9 "let in: eight that were killed and the last"
}

@test "a child that reaches MaxConnectionsPerChild leaves nothing behind" {
  start_httpd 'VhostLimit On' 'MaxConnectionsPerChild 20'
  local i
  for i in {1..150}; do get a /page.html -H 'Connection: close'; done | sort | uniq -c | xargs >"$BATS_TEST_TMPDIR/codes"
  is "$(<"$BATS_TEST_TMPDIR/codes")" '150 200'
  settles a requests 150
  settles a running 0
}
