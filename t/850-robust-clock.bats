#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Somebody sets the time of day: who waits waits as long as before.

load lib/live

need_cc() { need_program cc; }

setup() { requires cc; }

start_stepped() { # <as start_httpd>...
  cc -shared -fPIC -o "$BATS_TEST_TMPDIR/step_clock.so" "$TOP/t/lib/step_clock.c" -ldl
  chmod a+rx "$BATS_TEST_TMPDIR" "$BATS_TEST_TMPDIR/step_clock.so"
  export STEP=$BATS_TEST_TMPDIR/off
  export LD_PRELOAD=$BATS_TEST_TMPDIR/step_clock.so
  start_httpd "$@"
  unset LD_PRELOAD
}

step() { echo "$1" >"$STEP.new"; mv "$STEP.new" "$STEP"; }   # <seconds>

# The server's own idea of it, from an answer.
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
  wait_until 5 server_is_off_by "$1"
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

@test "an hour back: a socket that waits is refused when its time is over" {
  times_out_after_a_step -3600 event
}

@test "an hour back: a stream of HTTP/2 is refused when its time is over" {
  requires curl_http2 mod_http2
  times_out_after_a_step -3600 event --http2-prior-knowledge
}

@test "an hour back: prefork, a request is refused when its time is over" {
  requires prefork
  times_out_after_a_step -3600 prefork
}

@test "an hour on: a socket that waits is not refused for that" {
  waits_on_after_a_step 3600 event
}

@test "an hour on: a stream of HTTP/2 is not refused for that" {
  requires curl_http2 mod_http2
  waits_on_after_a_step 3600 event --http2-prior-knowledge
}

@test "an hour on: what waits goes on being counted and charged" {
  waits_on_after_a_step 3600 event
  is "$(status_of b cpu_now_permille | awk '{ print ($1 < 10000) }')" 1 "no rate out of this world"
  settles b requests 2
}
