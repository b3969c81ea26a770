#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs one test file for check.sh in namespaces of its own, with a time limit.  Writes its
# output, status and time to .check/files.
#   check-file.sh FILE

set -uo pipefail
# The longest file of the suite takes two minutes on two busy CPUs.
seconds=900
[[ ${VL_LONG:-0} == 0 ]] || seconds=14400
kept=.check/files/${1//\//-}
TIMEFORMAT='%R %U %S'

unset VL_TEST_ID VL_BED         # of an isolate.sh that check.sh itself runs in
{ time timeout --foreground --kill-after=10 "$seconds" t/lib/isolate.sh "$1" 2>&1 | tee "$kept.tap"; } 2>"$kept.time"
status=$?
if ((status == 124 || status == 137)); then echo "not ok - the file was killed after $seconds s" | tee -a "$kept.tap"; fi
echo "$1 $status" >"$kept.status"
exit "$status"
