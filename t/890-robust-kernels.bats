#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Pure cgroup v2 under a kernel of its own, in an emulated machine, and there with
# systemd as the first process.

load lib/common

need_qemu()    { need_root && need_program qemu-system-x86_64; }
need_systemd() { [[ -x /lib/systemd/systemd ]] || { echo "no systemd"; return 1; }; }

# Twenty seconds for the machine, some seconds a test: a minute or two each, when
# nothing else runs.
@test "pure v2, and v2 under systemd: trees, weights, caps, threads and delegation" {
  requires qemu systemd
  # The guest's bats is the one that begins, not the part of it that runs this.
  v2() { PATH=${PATH//"$BATS_LIBEXEC":/} timeout 1300 "$TOP/tools/v2.sh" -s 600; }
  try v2
  [[ $status != 77 ]] || skip "${lines[-1]}"
  is "$status" 0
  at_least "$(grep -c '^ok ' <<<"$output")" 80 "passed"
  is "$(grep -cE '^not ok|# skip' <<<"$output")" 0 "failed or skipped"
}

@test "systemd and another version of cgroups are an error of usage" {
  try "$TOP/tools/v2.sh" -i -c v1 true
  is "$status" 2
  like "$output" "-i: systemd makes the cgroups, v2"
}
