# SPDX-License-Identifier: Apache-2.0
#
# A server whose system calls fail when the test wants it (fail_syscalls.c), and that
# validates its shared memory (mod_validate.c).

need_cc() { need_program cc; }

# Builds the validating module for this Apache and the built tree, and prints its path.
validator() {
  local so=$BATS_FILE_TMPDIR/mod_validate.so
  # shellcheck disable=SC2046  # several flags
  [[ -e $so ]] || cc -shared -fPIC -w -o "$so" -I"$TOP/mod_vhostlimit" -I"${VL_BUILD_DIR:-$TOP}/mod_vhostlimit" -I"$(apxs_query INCLUDEDIR)" -D_GNU_SOURCE \
    $("$(apxs_query APR_CONFIG)" --includes --cppflags) "$TOP/t/lib/mod_validate.c" "${VL_BUILD_DIR:-$TOP}/mod_vhostlimit/.libs/libvlcore.a"
  printf '%s\n' "$so"
}

start_frail() { # <as start_httpd>...
  local so
  so=$(preload_library fail_syscalls)
  SHORT=$BATS_TEST_TMPDIR/short
  mkdir -p "$SHORT"
  chmod 777 "$SHORT"
  export SHORT
  rm -rf "$HTTPD_ROOT"
  configure_frail "$@"
  LD_PRELOAD=$so launch_httpd
}

configure_frail() { # <as configure_httpd>...
  configure_httpd "$@" -x "LoadModule validate_module $(validator)" -x '<Location "/validate">' -x 'SetHandler validate' -x '</Location>'
}

runs_short() { : >"$SHORT/$1"; }      # <what: see fail_syscalls.c>
has_enough() { rm -f "$SHORT/$1"; }   # <what>

# Fails unless nothing is held in the shared memory and all sums are right.
validated() {
  wait_until 20 no_request_runs
  is "$(web "$(url status /validate)")" valid "the shared memory"
}
