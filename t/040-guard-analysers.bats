#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0

load lib/common

need_cppcheck() { need_program cppcheck; }

# uninitvar, in the two files that walk rings: cppcheck takes APR_RING_FOREACH's
# sentinel, which is no element, for one that has not been filled in.
@test "cppcheck has nothing to say about the sources" {
  requires cppcheck
  try cppcheck -q -j 2 --enable=warning,performance,portability --error-exitcode=1 -D'APR_INT64_T_FMT="ld"' \
    --suppress=uninitvar:"$TOP/mod_vhostlimit/vl_arrival_away.c" --suppress=uninitvar:"$TOP/mod_vhostlimit/vl_wait.c" \
    -I "$TOP/mod_vhostlimit" "$TOP"/mod_vhostlimit/*.c
  is "$output" ''
  is "$status" 0
}
