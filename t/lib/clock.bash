# SPDX-License-Identifier: Apache-2.0
#
# A server whose module has a clock that the test can move (shift_clock.c). A test that
# would only wait for time to pass moves the clock instead; the code is the same.

need_cc() { need_program cc; }

# Builds the library to preload, and prints its path.
shift_clock_library() {
  local so=$BATS_FILE_TMPDIR/shift_clock.so
  [[ -e $so ]] || cc -Wall -Wextra -shared -fPIC -o "$so" "$TOP/t/lib/shift_clock.c" -ldl
  chmod a+rx "$BATS_FILE_TMPDIR" "$BATS_TEST_TMPDIR" "$so"
  printf '%s\n' "$so"
}

start_with_clock() { # <as start_httpd>...
  local so
  so=$(shift_clock_library)
  export SHIFT=$BATS_TEST_TMPDIR/shift
  : >"$SHIFT"
  export LD_PRELOAD=$so
  start_httpd "$@"
  unset LD_PRELOAD
}

# Moves the module's clock forward, in all processes at once.
pass_time() { truncate -s "+$1" "$SHIFT"; }  # <seconds>
