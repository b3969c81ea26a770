#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Faults under load: what dies takes with it no more than it held, the rest goes
# on, and nothing is left. VL_LONG=1 repeats them as often as docs/reliability.md
# says.

load lib/live
load lib/loaded

export LOG_MAY_SAY='exit signal (Killed|Segmentation fault)'

need_cc() { need_program cc; }

# The counts are right, nobody hangs, and both vhosts are served.
all_is_well() {
  wait_until 30 nobody_runs
  is "$(get a /page.html) $(get b /page.html)" '200 200'
}

a_child() { httpd_children | shuf -n 1; }

@test "children killed by -9 under load: 10 times, in the long form 100" {
  local times=$((${VL_LONG:-0} ? 100 : 10)) i
  start_httpd 'VhostLimit On' 'VhostLimitQueue 100 5s' -v 'b VhostLimitConcurrency 2'
  begin_load 4 a /page.html
  begin_load 4 b /cgi/nap.sh
  for ((i = 0; i < times; i++)); do
    load_goes_on 20
    kill -KILL "$(a_child)"
  done
  load_goes_on 20
  end_load
  echo "# $(load_got)"
  is "$(load_got | grep -oE ' (429|50[0-9])')" '' "answers that are errors"
  all_is_well
}

has_crashed() { (($(error_log | grep -c 'exit signal Segmentation') >= $1)); }  # <times, in all>

@test "children that crash while they hold the lock, under load: 5 times, in the long form 50" {
  requires cc
  local times=$((${VL_LONG:-0} ? 50 : 5)) i child
  cc -shared -fPIC -o "$BATS_TEST_TMPDIR/fall.so" "$TOP/t/lib/fall.c" -ldl
  mkdir -m 777 "$BATS_TEST_TMPDIR/fall"
  chmod a+rx "$BATS_TEST_TMPDIR" "$BATS_TEST_TMPDIR/fall.so"
  export FALL=$BATS_TEST_TMPDIR/fall LD_PRELOAD=$BATS_TEST_TMPDIR/fall.so
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off' 'VhostLimitQueue 100 5s' -v 'b VhostLimitConcurrency 2'
  unset LD_PRELOAD
  begin_load 4 a /page.html
  for ((i = 0; i < times; i++)); do
    child=$(a_child)
    : >"$FALL/$child"
    wait_until 20 has_crashed $((i + 1))
    load_goes_on 20
  done
  end_load
  echo "# $(load_got)"
  is "$(load_got | grep -oE ' (429|50[0-9])')" '' "answers that are errors"
  all_is_well
}

@test "a child that stands still: the others serve, who waits in it waits no longer than it may once it goes on" {
  requires event
  start_httpd 'VhostLimit On' 'VhostLimitQueue 100 3s' -v 'b VhostLimitConcurrency 1'
  local child i
  hold_request busy b
  child=$(httpd_children | grep -vx "$(holder_of busy)" | sed -n 1p)
  kill -STOP "$child"
  for i in 1 2 3 4; do begin_request "waits$i" b /page.html --max-time $((25 * SLOWER)); done
  begin_load 2 a /page.html
  load_goes_on 1
  kill -CONT "$child"
  load_goes_on 50
  end_load
  for i in 1 2 3 4; do like "$(answer_of "waits$i")" '^503$'; done
  release_request busy
  all_is_well
}

@test "a child of one descriptor too few: waits, serves and lives on" {
  requires event
  local limit
  limit=$(ulimit -Sn)
  ulimit -Sn 150
  start_httpd 'VhostLimit On' 'VhostLimitQueue 1000 20s' -v 'b VhostLimitConcurrency 1'
  ulimit -Sn "$limit"
  hold_request busy b
  (packets --idle 400 20 'GET /page.html HTTP/1.1\r\nHost: b.test\r\n\r\n' >"$BATS_TEST_TMPDIR/idle" || :) 3>&- 4>&- &
  local idle=$!
  wait_until 15 test -s "$BATS_TEST_TMPDIR/idle"
  release_request busy
  all_is_well
  wait "$idle"
  is "$(status_json | jq '[.vhosts[].waiting] | add')" 0
}
