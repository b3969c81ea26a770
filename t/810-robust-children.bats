#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Killed and crashed child processes: the slots of their requests are released.

load lib/live

export LOG_MAY_SAY='exit signal (Killed|Segmentation fault)'

# Holds requests in more than one child; sets $victim to the pid of one of them.
hold_in_two_children() { # <number>
  local i
  for ((i = 1; i <= $1; i++)); do hold_request "h$i"; done
  at_least "$(holders "$1" | sort -u | wc -l)" 2 "children in use"
  victim=$(holder_of h1)
}

holders() { local i; for ((i = 1; i <= $1; i++)); do holder_of "h$i"; done; }   # <number>

is_killed_with_requests_on() { # <mpm>
  start_httpd -m "$1" 'VhostLimit On' -v 'a VhostLimitConcurrency 12'
  local victim lost
  hold_in_two_children 12
  lost=$(holders 12 | grep -cx "$victim")
  kill -KILL "$victim"
  settles a running $((12 - lost))
  is "$(get a /)" 200 "a slot of the killed child is free"
}

@test "on each MPM the slots of a killed child are released" {
  on_each_mpm is_killed_with_requests_on
}

@test "the slots of a crashed child are released" {
  start_httpd 'VhostLimit On'
  local victim lost
  hold_in_two_children 12
  lost=$(holders 12 | grep -cx "$victim")
  kill -SEGV "$victim"
  settles a running $((12 - lost))
}

@test "the counts are right after all children have been killed four times" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 2'
  local round
  for round in 1 2 3 4; do
    hold_request "one$round"; hold_request "two$round"
    is "$(get a /)" 503
    httpd_children | xargs kill -KILL
    settles a running 0
  done
  is "$(get a /)" 200
  is "$(status_of a requests)" 9 "admitted: eight in killed children and the last"
}

@test "children that reach MaxConnectionsPerChild leave no request running" {
  start_httpd 'VhostLimit On' 'MaxConnectionsPerChild 20'
  local i
  for i in {1..150}; do get a /page.html -H 'Connection: close'; done | sort | uniq -c | xargs >"$BATS_TEST_TMPDIR/codes"
  is "$(<"$BATS_TEST_TMPDIR/codes")" '150 200'
  settles a requests 150
  settles a running 0
}

# Queues requests of new connections behind two that run, and kills every child process.
queued_requests_outlive_the_children_of() { # <mpm> <signal>
  local -a children
  start_httpd -m "$1" 'VhostLimit On' -v 'a VhostLimitConcurrency 2'
  hold_request one; hold_request two
  begin_crowd queued 30 a /page.html
  settles a waiting 30
  # Stopped first: a child must not take over connections of another one and die meanwhile.
  mapfile -t children < <(httpd_children)
  suspend "${children[@]}"
  kill "-$2" "${children[@]}"
  kill -CONT "${children[@]}" || :
  is "$(crowd_got queued)" '30 200' "queued requests"
  release_request one; release_request two
  settles a running 0
  is "$(status_of a waiting)" 0
}

@test "event and worker: connections queued in killed children are served by new ones" {
  MPMS='event worker' on_each_mpm queued_requests_outlive_the_children_of KILL
}

@test "prefork: connections queued in a killed acceptor are served by the next one" {
  requires prefork
  queued_requests_outlive_the_children_of prefork KILL
}

@test "connections queued in crashed children are served by new ones" {
  queued_requests_outlive_the_children_of event SEGV
}
