#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Static analysis of the sources by cppcheck, clang-tidy and shellcheck. It takes minutes of CPU time, so it is a
# job of tools/check.sh --all, which .ci/run runs too.

load lib/common
load lib/guard

need_cppcheck()   { need_program cppcheck; }
need_clang_tidy() { need_program clang-tidy; }

# uninitvar is off for files that iterate over rings: cppcheck takes the sentinel of
# APR_RING_FOREACH, which is no element, for an uninitialized element.
@test "cppcheck reports nothing" {
  requires long cppcheck
  try cppcheck -q -j 2 --enable=warning,performance,portability --error-exitcode=1 -D'APR_INT64_T_FMT="ld"' \
    --suppress=uninitvar:"$TOP/mod_vhostlimit/accept/vl_newconn.c" --suppress=uninitvar:"$TOP/mod_vhostlimit/core/vl_fair.c" \
    --suppress=uninitvar:"$TOP/mod_vhostlimit/lease/vl_lease.c" --suppress=uninitvar:"$TOP/mod_vhostlimit/lease/vl_lease_http2.c" \
    -I "$TOP/mod_vhostlimit" "$TOP"/mod_vhostlimit/{,*/}*.c "$TOP"/{ctl,fleet}/*.c
  is "$output" ''
  is "$status" 0
}

# .clang-tidy lists the checks.
@test "clang-tidy reports nothing" {
  requires long clang_tidy
  local apxs
  apxs=$(command -v "${VL_APXS:-apxs}" apxs2 | sed -n 1p)
  # shellcheck disable=SC2046  # words, one a line
  printf '%s\n' "-I${VL_BUILD_DIR:-$TOP}" "-I$TOP/mod_vhostlimit" "-I$TOP/ctl" -D_GNU_SOURCE '-DCTL_EXAMPLES=""' $(pkg-config --cflags apr-1 apr-util-1 jansson expat) \
    $(! pkg-config --exists hiredis || pkg-config --cflags hiredis) \
    $(! pkg-config --exists libcgroup || { echo -DVL_LIBCGROUP; pkg-config --cflags libcgroup; }) \
    $(! pkg-config --exists libseccomp || { echo -DVL_LIBSECCOMP; pkg-config --cflags libseccomp; }) \
    -isystem "$("$apxs" -q INCLUDEDIR)" $("$apxs" -q EXTRA_CPPFLAGS) >"$BATS_TEST_TMPDIR/compile_flags.txt"
  tidy() { # <checks that are left out> <files at a time> <file>...
    printf '%s\n' "${@:3}" |
      timeout 1800 xargs -P 2 -n "$2" clang-tidy --quiet --config-file="$TOP/.clang-tidy" -p "$BATS_TEST_TMPDIR" "--checks=$1" 2>/dev/null
  }
  # vhostlimitctl checks once, at its end, whether all output was written (cert-err33-c).
  # The analyzer reports its va_list as uninitialized in a run over several files.
  tidy_all() {
    local failed=0
    tidy '' 4 "$TOP"/mod_vhostlimit/{,*/}*.c || failed=1
    tidy -cert-err33-c 1 "$TOP"/ctl/*.c || failed=1
    # vhostlimit-fleet has arrays of pointers, for which bugprone-sizeof-expression is wrong.
    ! pkg-config --exists hiredis || tidy -cert-err33-c,-bugprone-sizeof-expression 1 "$TOP"/fleet/*.c || failed=1
    return "$failed"
  }
  try tidy_all
  is "$output" ''
  is "$status" 0
}

@test "shellcheck reports nothing" {
  requires long shellcheck
  local scripts
  mapfile -t scripts < <(scripts)
  at_least "${#scripts[@]}" 10 "scripts found"
  try check_all "${scripts[@]}"
  is "$status" 0
}
check_all() { printf '%s\0' "$@" | xargs -0 -n 20 -P 2 shellcheck -x -P SCRIPTDIR -P "$TOP"; }
