# SPDX-License-Identifier: Apache-2.0
#
# A server whose module has a clock that the test can move (shift_clock.c). A test that
# would only wait for time to pass moves the clock instead; the code is the same.

need_cc() { need_program cc; }

start_with_clock() { # <as start_httpd>...
  export SHIFT=$BATS_TEST_TMPDIR/shift
  : >"$SHIFT"
  start_preloaded shift_clock "$@"
}

# Moves the module's clock forward, in all processes at once.
pass_time() { truncate -s "+$1" "$SHIFT"; }  # <seconds>
