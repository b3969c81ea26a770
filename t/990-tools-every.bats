#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# needs: bed
# VL_LONG=1: every test of bench.sh in its quick form runs to its end by itself, here
# and with clients over ssh, and its report opens in a browser without a complaint.
# Takes about an hour, two at most; what became of each test is said as it goes.

bats_require_minimum_version 1.5.0
load lib/common
load lib/machines

setup() {
  requires long root netns sar siege wrk
  cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
  [[ ! -d $BATS_FILE_TMPDIR/machines ]] || machines_down 2>/dev/null
}

here() { exec "$@"; }           # as on_server

every_test() { # <here|on_server> [<option>]...
  local name what begun left deadline=$((SECONDS + 3600)) bad=()
  while read -r name _; do
    begun=$SECONDS left=$((deadline - SECONDS))
    ((left > 0)) || { bad+=("$name, not begun within the hour"); continue; }
    what=$(what_becomes_of "$((left < 1200 ? left : 1200))" "$name" "$@") || bad+=("$name")
    printf '# %-12s %4d s  %s\n' "$name" $((SECONDS - begun)) "$what" >&3
  done < <("$TOP/tools/bench.sh" -l)
  is "${bad[*]-}" '' "tests that failed"
}

what_becomes_of() { # <seconds it may take> <test> <here|on_server> [<option>]...
  local status=0 name=$2 said
  ("$3" timeout -k 60 "$1" "$TOP/tools/bench.sh" --quick --keep-noisy -o "$name" "${@:4}" "$name") >"$name.out" 2>"$name.err" </dev/null 3>&- || status=$?
  if ((status)); then
    said=$(grep '^bench.sh: ' "$name.err" | grep -v -e ' left$' -e ': report.txt' | tail -n 1)
    printf 'status %s: %s\n' "$status" "$said"
    [[ $status == 2 && $said == *"the test $name needs the clients of the test bed"* ]]
    return
  fi
  jq -e '.complete and ([.runs[].total.transactions] | add > 0)' "$name/result.json" >/dev/null ||
    { echo 'not complete, or without an answer'; return 1; }
  jq -r '"\(.runs | length) runs, \([.runs[].total.transactions] | add) answers"' "$name/result.json"
}

@test "every test of bench.sh runs, with the clients of the test bed" {
  every_test here
}

@test "every test of bench.sh runs, with clients over ssh" {
  requires sshd
  machines_up
  every_test on_server --clients one,two,three --install
}
