#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# fresh.sh, matrix.sh and smoke.sh. A root made by debootstrap takes minutes, so most tests
# run fresh.sh in a kept root that is this machine under an overlay.

bats_require_minimum_version 1.5.0
load lib/common
load lib/httpd
load lib/machine

setup() {
  export VL_PRISTINE_ROOTS=$BATS_TEST_TMPDIR/roots
}

teardown() {
  if [[ -n ${fresh-} ]]; then kill -KILL "$fresh" 2>/dev/null || true; fi
  ! mountpoint -q "$BATS_TEST_TMPDIR/kept/root" || umount -l "$BATS_TEST_TMPDIR/kept/root"
  ! mountpoint -q "$BATS_TEST_TMPDIR/disk" || umount -l "$BATS_TEST_TMPDIR/disk"
}

# Sets $kept to the folder of a root as `fresh.sh --keep` leaves it.
make_kept_root() {
  kept=$BATS_TEST_TMPDIR/kept
  local disk=$BATS_TEST_TMPDIR/disk
  mkdir -p "$kept/root" "$disk"
  mount -t tmpfs tmpfs "$disk"
  mkdir "$disk/upper" "$disk/work"
  mount -t overlay overlay -o "lowerdir=/,upperdir=$disk/upper,workdir=$disk/work" "$kept/root"
  mkdir -p "$kept/root/root/mod_vhostlimit"
  : >"$kept/lock"
  echo overlay >"$kept/suite"
}

in_root() { try "$TOP/tools/fresh.sh" --root "$kept" "$@"; } # <command>...

begin_fresh() { # <command>...: its pid is in $fresh
  "$TOP/tools/fresh.sh" --root "$kept" "$@" >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
  fresh=$!
}

waits_inside() { pgrep -xf "sleep $1" >/dev/null; }
nothing_waits() { ! waits_inside "$1"; }

@test "fresh.sh and matrix.sh reject invalid arguments" {
  try "$TOP/tools/fresh.sh" -s '../etc' true
  is "$status" 2
  try "$TOP/tools/fresh.sh" --root "$BATS_TEST_TMPDIR" true
  is "$status" 2
  like "$output" 'is not a root kept by --keep'
  try "$TOP/tools/matrix.sh" debian-7
  is "$status" 2
  try "$TOP/tools/matrix.sh" --httpd x="$BATS_TEST_TMPDIR"
  is "$status" 2
  like "$output" 'is not an Apache in the Red Hat layout'
  try "$TOP/tools/matrix.sh" --files t/310-admit-counts.bats,t/nothing.bats debian-12
  is "$status" 2
  like "$output" "the commit has no test file 't/nothing\.bats'"
  try "$TOP/tools/matrix.sh" -l
  is "$status" 0
  like "$output" 'debian-12-without-libcgroup'
}

@test "the suite in a cell of matrix.sh says how many tests each MPM had, and which files failed" {
  mkdir -p "$BATS_TEST_TMPDIR/tools"
  cat >"$BATS_TEST_TMPDIR/tools/check.sh" <<'END'
#!/bin/bash
mkdir -p .check/files
printf '%s\n' 'ok 1 a' 'ok 2 b # skip no event' >.check/files/a.tap
[[ $VL_MPM != prefork ]] || exit 1
echo 'Files=1, Tests=2,  9 wallclock secs' >.check/summary
[[ $VL_MPM == event ]] || { echo 't/a.bats (Wstat: 256 Tests: 2 Failed: 1)' >>.check/summary; exit 1; }
END
  chmod +x "$BATS_TEST_TMPDIR/tools/check.sh"
  cd "$BATS_TEST_TMPDIR"
  try bash -c ". '$TOP/tools/matrix.sh'; set +e; cell_suite yes"
  is "$output" 'event: 2 tests of 1 files, 1 skipped; worker: 2 tests of 1 files, 1 skipped, FAILED: t/a.bats; prefork: 2 tests of 1 files, 1 skipped, FAILED: '
}

@test "without root fresh.sh and matrix.sh end with 77 and create nothing" {
  requires root
  local program
  for program in fresh matrix; do
    # The tree may be in a folder that another user cannot read.
    cp -R "$TOP/tools" "$BATS_TEST_TMPDIR/tools-$program"
    chmod -R a+rX "$BATS_TEST_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_RUN_TMPDIR"
    try setpriv --reuid 65534 --regid 65534 --clear-groups "$BATS_TEST_TMPDIR/tools-$program/$program.sh"
    is "$status" 77
    like "$output" 'needs root'
  done
  [[ ! -e $VL_PRISTINE_ROOTS ]] || fail "a folder for roots was made"
}

@test "a command in a root has its own processes, /run and /dev/shm, and the machine's cgroups" {
  requires root machine
  make_kept_root
  : >/dev/shm/vl-outside
  # shellcheck disable=SC2016  # for the shell in the root
  in_root bash -c 'cat /proc/1/comm; ls -A /run /dev/shm; hostname; ls -d /sys/fs/cgroup; pwd; exit 7'
  rm -f /dev/shm/vl-outside
  is "$status" 7 "status of the command"
  like "$output" $'bash\n/dev/shm:\n\n/run:\nlock(\nmount)?\npristine\n/sys/fs/cgroup\n/root/mod_vhostlimit\n'
  export VL_WORD=passed OTHER_WORD=stays
  # shellcheck disable=SC2016
  in_root bash -c 'echo "words: $VL_WORD, $OTHER_WORD."'
  like "$output" 'words: passed, \.'
  # shellcheck disable=SC2016
  in_root bash -c 'exec echo descriptors: /proc/$$/fd/*' 9</dev/null
  like "$output" $'descriptors: /proc/[0-9]+/fd/0 /proc/[0-9]+/fd/1 /proc/[0-9]+/fd/2( /proc/[0-9]+/fd/3)?\nfresh'
  grep -q "$kept/root/proc" /proc/self/mounts && fail "a mount is left outside"
  in_root cat <<<"from outside"
  like "$output" "from outside"
}

@test "after SIGKILL and SIGTERM no process of the root is left" {
  requires root machine
  local signal
  make_kept_root
  for signal in KILL TERM; do
    begin_fresh bash -c 'setsid sleep 98765 & sleep 98764'
    wait_until 10 waits_inside 98765
    kill -"$signal" "$fresh"
    wait_until 10 nothing_waits 98765
    wait_until 10 nothing_waits 98764
    status=0
    wait "$fresh" || status=$?
    is "$status" "$([[ $signal == KILL ]] && echo 137 || echo 143)" "status after $signal"
    fresh=
  done
  in_root true
  is "$status" 0 "the root can be used again"
}

@test "a root is used by one run at a time" {
  requires root machine
  make_kept_root
  begin_fresh sleep 98763
  wait_until 10 waits_inside 98763
  in_root true
  is "$status" 1
  like "$output" 'in use by another run'
}

@test "the remains of a killed run are removed, but not roots in use or kept" {
  requires root
  local roots=$VL_PRISTINE_ROOTS
  mkdir -p "$roots"/{left,used,kept,half}/root "$roots/empty"
  touch "$roots"/{left,used,kept}/lock "$roots/kept/kept"
  exec {lock}<"$roots/used/lock"
  flock "$lock"
  try bash -c ". '$TOP/tools/lib/common.sh'; . '$TOP/tools/lib/pristine.sh'; pristine_clean" "$lock"
  exec {lock}<&-
  is "$status" 0
  is "$(cd "$roots" && echo *)" 'half kept used' "roots after it"
}

@test "the smoke test passes with this Apache" {
  try "$TOP/t/smoke.sh" -p "$(httpd_program)" -d "$(httpd_module_dir)" -m "$(vl_module)"
  is "$status" 0
  is "$(grep -c '^ok' <<<"$output")" 8 "tests that passed"
}

@test "a root made by debootstrap has a clone of the last commit and nothing else" {
  requires root git
  [[ ${VL_LONG:-} == 1 ]] || skip "VL_LONG=1 asks for minutes"
  try "$TOP/tools/fresh.sh" bash -c 'command -v git make gcc curl; git -C . log; sed -n 1,2p README.md; ls -A /var/tmp /tmp'
  like "$output" '# mod_vhostlimit'
  is "$(grep -E '/bin/(git|make|gcc|curl)' <<<"$output")" '' "programs that the root has"
  is "$(ls -A "$VL_PRISTINE_ROOTS")" '' "roots left"
}
