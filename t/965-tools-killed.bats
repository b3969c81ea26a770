#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# needs: bed
# bench.sh ended or killed at random moments leaves nothing, here and on the machines of
# --clients. After SIGKILL the next tool removes the remains.

bats_require_minimum_version 1.5.0
load lib/common
load lib/machines

BED=${VL_BED:-vhostlimit-testbed}
DIR=/run/$BED

setup() {
  requires root netns sar wrk
  cd "$BATS_TEST_TMPDIR" || return
  RANDOM=${VL_SEED:=$RANDOM}
  echo "VL_SEED=$VL_SEED repeats these moments"
  # All processes of a run have this in their environment.
  export VL_KILLED_RUN=run-$BATS_TEST_NUMBER-$$-$EPOCHREALTIME
}

teardown() {
  [[ -z ${bench-} ]] || kill -TERM "$bench" 2>/dev/null || true
  [[ ! -d $BATS_FILE_TMPDIR/machines ]] || machines_down 2>/dev/null
}

here() { exec "$@"; }           # as on_server

# A run that is as short as possible; its pid is in $bench.
begin_run() { # <here|on_server> [<option>]...
  # A shell's background jobs ignore INT, a program started by hand does not.
  "$1" env --default-signal=INT "$TOP/tools/bench.sh" --quick --keep-noisy --target plain --page static -w 25 -o out "${@:2}" alone \
    >report 2>log 3>&- &
  bench=$!
}

# Kills after 0.1 to 7 seconds, about as long as a run takes. Sets status.
kill_run() { # <signal>
  local tenths=$((RANDOM % 70 + 1))
  sleep "$((tenths / 10)).$((tenths % 10))"
  kill "-$1" "$bench" 2>/dev/null || true
  status=0
  wait "$bench" || status=$?
  bench=
  echo "$1 after $tenths tenths of a second: status $status; $(tail -n 1 log)"
}

processes_left() { # command lines of the killed run's processes, and namespaces of the bed
  local process
  while read -r process; do
    process=${process%/environ}
    # This test has the word as well.
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
  [[ -z $(find /sys/fs/cgroup -maxdepth 2 -type d -name "$BED*") ]]
}

# The first one, or all of them, five times, in the long form.
signals() { # <signal>...
  if [[ ${VL_LONG:-0} == 0 ]]; then echo "$1"; else printf '%s\n' "$@" "$@" "$@" "$@" "$@"; fi
}

@test "SIGINT or SIGTERM at random moments leaves nothing" {
  for signal in $(signals INT TERM); do
    begin_run here
    kill_run "$signal"
    [[ $status == 0 || $status == "$([[ $signal == INT ]] && echo 130 || echo 143)" ]]
    nothing_left
  done
}

# Processes of the killed run hold the lock until they have ended.
takes_down() { "$TOP/tools/setup.sh" down 3>&-; }

@test "after SIGKILL at random moments the next tool removes the remains" {
  for signal in $(signals KILL); do
    begin_run here
    kill_run "$signal"
    wait_until 10 takes_down
    wait_until 20 nothing_left
  done
}

mapped() { ! cmp -s /etc/netns/vlt-host3/hosts "$MACHINES_DIR/host3/hosts"; }

@test "with --clients, the machines are restored after SIGTERM and SIGKILL" {
  requires sshd siege
  machines_up
  for signal in $(signals KILL TERM); do
    begin_run on_server --clients one,two,three --install
    wait_until 30 mapped
    kill_run "$signal"
    wait_until 15 machines_clean
    if [[ $signal == KILL ]]; then (on_server "$TOP/tools/setup.sh" down) 3>&-; fi
    # After SIGKILL an ssh ends when the load of its machine does.
    wait_until 30 nothing_left
  done
}

# The keepers connect first, then the load of the warm-up.
@test "with --clients, nothing connects for a run that was killed before its ssh" {
  requires sshd siege
  machines_up
  mkdir slow
  # shellcheck disable=SC2016  # for the script
  printf '#!/bin/sh\necho >>%q\nsleep 2\nexec %q "$@"\n' "$PWD/connects" "$(command -v setpriv)" >slow/setpriv
  chmod +x slow/setpriv
  for connections in ${VL_LONG:+1} 4; do
    : >connects
    PATH=$PWD/slow:$PATH begin_run on_server --clients one,two,three --install
    wait_until 30 connected "$connections"
    kill -KILL "$bench"
    wait "$bench" || bench=
    wait_until 15 machines_clean
    (on_server "$TOP/tools/setup.sh" down) 3>&-
    wait_until 10 nothing_left
    machines_clean
  done
}

connected() { (($(wc -l <connects) >= $1)); }      # <connections>
