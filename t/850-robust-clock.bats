#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Steps of the system time do not change how long a request is queued, and a server may start with
# the machine.

load lib/live

need_cc() { need_program cc; }

setup() { requires cc; }

start_stepped() { # <as start_httpd>...
  export STEP=$BATS_TEST_TMPDIR/off
  start_preloaded step_clock "$@"
}

step() { echo "$1" >"$STEP.new"; mv "$STEP.new" "$STEP"; }   # <seconds>

# Compares the server's time, from a response, with the time of this machine.
server_is_off_by() { # <seconds>
  local off
  get c /page.html >/dev/null
  off=$(($(date -d "$(answer_head Date)" +%s) - $(date +%s) - $1))
  ((off > -60 && off < 60))
}

one_waits_while_it_steps() { # <seconds> <mpm> <timeout> <what curl is told>...
  start_stepped -m "$2" -l http2 'Protocols h2c http/1.1' 'VhostLimit On' "VhostLimitQueue 100 $3" -v 'b VhostLimitConcurrency 1'
  hold_request busy b
  begin_request waits b /page.html "${@:4}"
  settles b waiting 1
  step "$1"
  wait_until 20 server_is_off_by "$1"
}

times_out_after_a_step() { # <seconds> <mpm> [option of curl]...
  one_waits_while_it_steps "$1" "$2" 2s "${@:3}"
  is "$(answer_of waits)" 503
  is "$(status_of b refused_timeout)" 1
}

waits_on_after_a_step() { # <seconds> <mpm> [option of curl]...
  one_waits_while_it_steps "$1" "$2" 60s "${@:3}"
  is "$(status_of b waiting) $(status_of b refused)" '1 0'
  release_request busy
  is "$(answer_of waits)" 200
}

@test "an hour back: a queued connection is refused at its timeout" {
  times_out_after_a_step -3600 event
}

@test "an hour back: an HTTP/2 stream is refused at its timeout" {
  requires curl_http2 mod_http2
  times_out_after_a_step -3600 event --http2-prior-knowledge
}

@test "an hour back: prefork, a request is refused at its timeout" {
  requires prefork
  times_out_after_a_step -3600 prefork
}

@test "an hour ahead: a queued connection is not refused" {
  waits_on_after_a_step 3600 event
}

@test "an hour ahead: a waiting HTTP/2 stream is not refused" {
  requires curl_http2 mod_http2
  waits_on_after_a_step 3600 event --http2-prior-knowledge
}

@test "an hour ahead: a queued request is counted and charged as before" {
  waits_on_after_a_step 3600 event
  is "$(status_of b cpu_now_permille | awk '{ print ($1 < 10000) }')" 1 "rate of CPU time"
  settles b requests 2
}

# ---- the machine has just started -----------------------------------------------

need_time_namespace() { unshare --fork --time --monotonic=-1 true 2>/dev/null || { echo "no time namespaces"; return 1; }; }

@test "unit tests pass two seconds after the start of the machine, where the monotonic clock begins" {
  requires time_namespace
  local up test
  for test in "${VL_BUILD_DIR:-$TOP}"/t/unit/*.t; do
    up=$(cut -d . -f 1 /proc/uptime)
    unshare --fork --time --monotonic=-$((up - 2)) "$test" >"$BATS_TEST_TMPDIR/out" 3>&- 4>&- || { echo "$test"; grep -A 3 '^not ok' "$BATS_TEST_TMPDIR/out"; false; }
  done
}
