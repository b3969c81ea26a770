#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Faults under load: a dead child loses only its own requests, and other requests are
# served. VL_LONG=1 repeats the faults as often as docs/reliability.md says.

load lib/live
load lib/loaded

export LOG_MAY_SAY='exit signal (Killed|Segmentation fault)'

need_cc() { need_program cc; }

# The counts are right, no request is running, and both vhosts are served.
serves_and_is_idle() {
  wait_until 30 no_request_runs
  is "$(get a /page.html) $(get b /page.html)" '200 200'
}

# A request that was running or queued in a dying child has no response (000): at most one
# of each of the eight clients for each child. All other responses are 200.
no_errors_but() { # <children that died>
  local got
  got=$(load_got)
  like "$got" '^([0-9]+ 000 )?[0-9]+ 200$' "answers"
  [[ $got != *' 000 '* ]] || at_most "${got%% *}" $(($1 * 8)) "requests without an answer"
}

# Sets child. The parent starts another one within a second of a death.
a_child()  { wait_until 20 has_child; }
has_child() { child=$(httpd_children | shuf -n 1); [[ -n $child ]]; }

@test "children killed by SIGKILL under load: 10 times, in the long form 100" {
  local times=$((${VL_LONG:-0} ? 100 : 10)) i child
  start_httpd 'VhostLimit On' 'VhostLimitQueue 100 5s' -v 'b VhostLimitConcurrency 2'
  begin_load 4 a /page.html
  begin_load 4 b /cgi/nap.sh
  for ((i = 0; i < times; i++)); do
    load_goes_on 20
    a_child
    kill -KILL "$child"
  done
  load_goes_on 20
  end_load
  echo "# $(load_got)"
  no_errors_but "$times"
  serves_and_is_idle
}

has_crashed() { (($(error_log | grep -c 'exit signal Segmentation') >= $1)); }  # <times, in all>

@test "children that crash while they hold the lock, under load: 5 times, in the long form 50" {
  requires cc
  local times=$((${VL_LONG:-0} ? 50 : 5)) i child
  mkdir -m 777 "$BATS_TEST_TMPDIR/fall"
  export FALL=$BATS_TEST_TMPDIR/fall
  start_preloaded segv_in_lock 'VhostLimit On' 'VhostLimitCgroup off' 'VhostLimitQueue 100 5s' -v 'b VhostLimitConcurrency 2'
  begin_load 4 a /page.html
  for ((i = 0; i < times; i++)); do
    a_child
    : >"$FALL/$child"
    wait_until 20 has_crashed $((i + 1))
    load_goes_on 20
  done
  end_load
  echo "# $(load_got)"
  no_errors_but "$times"
  serves_and_is_idle
}

@test "a stopped child: others serve, and its queued requests are refused when it continues" {
  requires event
  start_httpd 'VhostLimit On' 'VhostLimitQueue 100 3s' -v 'b VhostLimitConcurrency 1'
  local child i
  hold_request busy b
  child=$(httpd_children | grep -vx "$(holder_of busy)" | sed -n 1p)
  suspend "$child"
  for i in 1 2 3 4; do begin_request "waits$i" b /page.html --max-time $((25 * SLOWER)); done
  begin_load 2 a /page.html
  load_goes_on 1
  answered waits1 && fail "it was answered before its timeout"
  kill -CONT "$child"
  load_goes_on 50
  end_load
  for i in 1 2 3 4; do like "$(answer_of "waits$i")" '^503$'; done
  release_request busy
  serves_and_is_idle
}

@test "a child with too few descriptors queues and serves requests and does not end" {
  requires event
  local limit children
  limit=$(ulimit -Sn)
  ulimit -Sn 150
  start_httpd 'VhostLimit On' 'VhostLimitQueue 1000 20s' -v 'b VhostLimitConcurrency 1'
  ulimit -Sn "$limit"
  children=$(httpd_children | sort | xargs)
  hold_request busy b
  begin_crowd many 400 b /page.html
  # The site loses its newest connections, by a reset, when descriptors run short.
  wait_until 15 status_at_least b refused_queue 100
  at_least "$(status_of b waiting)" 1 "queued requests"
  release_request busy
  # A child that has no descriptor left cannot open the page (403).
  like "$(crowd_got many)" '^[0-9]+ 200 ([0-9]+ 403 )?([0-9]+ 503 )?[0-9]+ none$' "answers and resets"
  at_least "$(status_of b reset)" 100 "resets"
  is "$(httpd_children | sort | xargs)" "$children" "children, none of which has ended"
  serves_and_is_idle
}
