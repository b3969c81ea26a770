#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bench.sh killed at ten random moments leaves nothing behind; killed outright, the
# next tool removes what is left.

bats_require_minimum_version 1.5.0
load lib/common

DIR=/run/vhostlimit-testbed

setup() {
  requires root netns sar wrk
  cd "$BATS_TEST_TMPDIR" || return
  # whatever a run starts has this in its environment
  export VL_KILLED_RUN=run-$BATS_TEST_NUMBER-$$-$EPOCHREALTIME
}

teardown() { [[ -z ${bench-} ]] || kill -TERM "$bench" 2>/dev/null || true; }

# The run is as short as one can be, and is killed after so many tenths of a second.
kill_run() { # <signal> <tenths>; sets status
  local program=("$TOP/tools/bench.sh" --quick --target plain --page static -w 25 -o out alone)
  # a shell's background jobs ignore INT, a program started by hand does not
  env --default-signal=INT "${program[@]}" >report 2>log 3>&- &
  bench=$!
  sleep "$(($2 / 10)).$(($2 % 10))"
  kill "-$1" "$bench" 2>/dev/null || true
  status=0
  wait "$bench" || status=$?
  bench=
  echo "$1 after $2 tenths of a second: status $status; $(tail -n 1 log)"
}

processes_left() { # command lines of the run that was killed, and who is in a namespace of its
  local process
  while read -r process; do
    process=${process%/environ}
    # this test has the word as well
    grep -qs bats "$process/cmdline" || tr '\0' ' ' 2>/dev/null <"$process/cmdline"
  done < <(grep -lsF "VL_KILLED_RUN=$VL_KILLED_RUN" /proc/[0-9]*/environ)
  ip netns list | grep '^vl-' || true
}

nothing_left() {
  local left
  left=$(processes_left)
  [[ -z $left ]] || { echo "left: $left"; return 1; }
  [[ ! -e $DIR && ! -e $DIR.lock ]] || { ls -d "$DIR"*; return 1; }
  ! compgen -G '/etc/netns/vl-*' || return 1
  ! grep ' /run/netns/vl-' /proc/self/mounts || return 1
  [[ -z $(find /sys/fs/cgroup -maxdepth 2 -type d -name 'vhostlimit-testbed*') ]]
}

moment() { echo $((RANDOM % 70 + 1)); }   # in a run of about seven seconds

@test "ended by SIGINT or SIGTERM at six random moments, it leaves nothing" {
  for signal in INT TERM INT TERM INT TERM; do
    kill_run "$signal" "$(moment)"
    [[ $status == 0 || $status == "$([[ $signal == INT ]] && echo 130 || echo 143)" ]]
    nothing_left
  done
}

@test "killed outright at four random moments, the next tool removes what is left" {
  for _ in 1 2 3 4; do
    kill_run KILL "$(moment)"
    try "$TOP/tools/setup.sh" down 3>&-
    is "$status" 0
    wait_until 5 nothing_left
  done
}
