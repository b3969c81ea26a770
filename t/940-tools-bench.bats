#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The main job from end to end, and interrupted.

bats_require_minimum_version 1.5.0
TOP=$(cd -- "$BATS_TEST_DIRNAME/.." && pwd)
BENCH=$TOP/tools/bench.sh
DIR=/run/vhostlimit-testbed

setup_file() {
  ((EUID == 0)) || return 0
  ip netns add vl-probe 2>/dev/null && ip netns del vl-probe && touch "$BATS_FILE_TMPDIR/able"
}

setup() {
  ((EUID == 0)) || skip "not root"
  [[ -e $BATS_FILE_TMPDIR/able ]] || skip "no network namespaces here"
  for program in siege wrk sar jq; do
    command -v "$program" >/dev/null || skip "no $program"
  done
  cd "$BATS_TEST_TMPDIR" || return
}

nothing_left() {
  [[ ! -e $DIR && ! -e $DIR.lock && ! -e /etc/netns/vl-client1 ]] && ! ip netns list | grep -q '^vl-'
}

interrupted() { # <seconds> <signal>: the status of a bench that got it
  local rc=0 pid
  # a shell's background jobs ignore INT, a program started by hand does not
  env --default-signal=INT "$BENCH" --quick --target plain --page static -o out >log 2>&1 3>&- &
  pid=$!
  sleep "$1"
  kill "-$2" "$pid" || true
  wait "$pid" || rc=$?
  cat log
  printf 'status %s\n' "$rc"
  return "$rc"
}

@test "bench.sh --quick measures both pages on both targets" {
  [[ -e $TOP/mod_vhostlimit/.libs/mod_vhostlimit.so ]] || skip "the module is not built"
  run --separate-stderr "$BENCH" --quick -o out 3>&-
  # shellcheck disable=SC2154  # set by run --separate-stderr
  printf '%s\n%s\n' "$output" "$stderr"
  [ "$status" -eq 0 ]
  [[ $output == *"Jain's index"* && $output == *"static: of the "* && $output == *"php: of the "* ]]
  [[ $stderr == *" left"* ]]
  nothing_left
  is='[.runs[] | "\(.page) \(.target) \(.clients | length) \(.sites | map(.users) | join("+"))"] | join(", ")'
  got=$(jq -r "$is" out/result.json)
  echo "$got"
  [ "$got" = "static plain 3 100+1000, static vhostlimit 3 100+1000, php plain 3 100+1000, php vhostlimit 3 100+1000" ]
  jq -e 'all(.runs[]; .total.rate > 0 and .jain > 0 and .sar.cpu.server.busy > 0 and .sar.memory.used_kb > 0)' out/result.json
  jq -e '.schema == 1 and .machine.kernel and .machine.httpd and (.options.load | startswith("siege"))' out/result.json
  jq -e '[.conclusion[].fraction] | length == 4 and all(. > 0)' out/result.json
}

@test "wrk gives percentiles as well" {
  run "$BENCH" --quick --target plain --page static --load wrk -k -o out 3>&-
  printf '%s\n' "$output"
  [ "$status" -eq 0 ]
  jq -e '.runs[0].sites[0].p99_s > 0 and .options.keepalive' out/result.json
}

@test "interrupted while it sets up, warms up or measures, it leaves nothing" {
  for case in '0.4 TERM 143' '1.2 INT 130' '3.5 TERM 143'; do
    read -r seconds signal want <<<"$case"
    run interrupted "$seconds" "$signal"
    printf '%s\n' "$output"
    [ "$status" -eq "$want" ]
    nothing_left
  done
}

@test "killed outright while it measures, the next tool cleans up behind it" {
  run interrupted 3 KILL
  printf '%s\n' "$output"
  [ "$status" -eq 137 ]
  run "$TOP/tools/setup.sh" down 3>&-
  printf '%s\n' "$output"
  [ "$status" -eq 0 ]
  nothing_left
}
