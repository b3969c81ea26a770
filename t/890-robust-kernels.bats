#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Pure cgroup v2 under a kernel of its own, in a virtual machine, also with systemd as
# the first process.

load lib/common
load lib/cgroup

need_qemu()    { need_root && need_program qemu-system-x86_64; }
need_systemd() { [[ -x /lib/systemd/systemd ]] || { echo "no systemd"; return 1; }; }

# The guest runs the bats on PATH, not the part of bats that runs this test.
guest() { PATH=${PATH//"$BATS_LIBEXEC":/} timeout 1300 "$TOP/tools/v2.sh" -s 600 "$@"; }   # <v2.sh argument>...

all_passed() { # <number>: at least
  is "$status" 0
  at_least "$(grep -c '^ok ' <<<"$output")" "$1" "passed"
  is "$(grep -cE '^not ok|# skip' <<<"$output")" 0 "failed or skipped"
}

# Half a minute for the machine, and ten to thirty seconds for each test.
@test "v2 under systemd: weights, caps, threads, programs and delegation" {
  requires long qemu systemd
  try guest -i bats -f 'share a CPU|capped back end|thread of Apache|CGI program|v2:|delegate:' t/450-cgroup-shares.bats t/460-cgroup-systemd.bats
  [[ $status != 77 ]] || skip "${lines[-1]}"
  all_passed 6
}

# Six minutes.
@test "pure v2, and what needs systemd: all that v2.sh runs by itself" {
  requires long qemu systemd
  try guest
  all_passed 80
}

# The groups of a start, in the only mounted version.
@test "with only v1, or only v2, mounted, the module finds its groups" {
  requires root cgroups
  local version
  for version in v1 v2; do
    try env PATH="${PATH//"$BATS_LIBEXEC":/}" "$TOP/tools/cgroups.sh" "$version" bats -f 'has a group after the start' "$TOP/t/410-cgroup-tree.bats"
    [[ $status != 77 ]] || skip "${lines[-1]}"
    all_passed 1
  done
}

@test "v2.sh -n: the command's output, its status, its time limit, and nothing is left" {
  requires root systemd
  try env PATH="${PATH//"$BATS_LIBEXEC":/}" "$TOP/tools/v2.sh" -n bash -c 'cat /proc/1/comm; systemctl show -P ActiveState vhostlimit-v2; exit 3'
  [[ $status != 77 ]] || skip "${lines[-1]}"
  is "$status $output" $'3 systemd\nactive'
  try "$TOP/tools/v2.sh" -n -s 2 sleep 1000
  is "$status $output" '124 '
  is "$(find /sys/fs/cgroup -name "vhostlimit-v2-${VL_TEST_ID:-own}-*" 2>/dev/null)" '' "cgroups"
}

# Prints what is chosen with a qemu that says this with KVM.
# shellcheck disable=SC2016  # the inner shells expand them
accel_with() { # <text>
  printf '#!/bin/sh\n[ "$2" = kvm ] && echo "%s"\n' "$1" >"$BATS_TEST_TMPDIR/qemu-system-x86_64"
  chmod 755 "$BATS_TEST_TMPDIR/qemu-system-x86_64"
  PATH=$BATS_TEST_TMPDIR:$PATH bash -c '. "$1"; cache=$2 kvm=$2/kvm; choose_accel; echo "$accel"' bash "$TOP/tools/v2.sh" "$BATS_TEST_TMPDIR"
}

@test "KVM is used if it starts a kernel, and not because /dev/kvm is there" {
  mkdir "$BATS_TEST_TMPDIR/files"
  is "$(accel_with '[ 0.0] Linux version 6.12')" tcg
  : >"$BATS_TEST_TMPDIR/kvm"
  is "$(accel_with '[ 0.0] Linux version 6.12')" kvm
  is "$(accel_with 'KVM internal error')" tcg
}

@test "an unknown version, no command, and -i with v1 are usage errors" {
  try "$TOP/tools/cgroups.sh" v3 true
  is "$status" 2
  like "$output" "'v3' is not v1 or v2"
  try "$TOP/tools/cgroups.sh" v1
  is "$status" 2
  like "$output" 'missing command'
  try "$TOP/tools/v2.sh" -i -c v1 true
  is "$status" 2
  like "$output" "-i and -n are valid with -c v2 only"
  try "$TOP/tools/v2.sh" -n
  is "$status" 2
  like "$output" '-n: missing command'
}
