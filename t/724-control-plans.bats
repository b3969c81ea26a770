#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Changes of plans while the server runs, changes with an end time, and changes of
# many sites at once.

load lib/live
load lib/clock
load lib/control

setup() { requires root ctl; }

GOLD=$'<VhostLimitPlan gold>\nVhostLimitWeight 300\nVhostLimitConcurrency 20\n</VhostLimitPlan>'

weights() { ask 'status\n' | jq -r '.vhosts[1:4][].weight' | xargs; }
rewrite() { sed -i "$1" "$HTTPD_ROOT/httpd.conf"; }  # <sed expression>

start_gold() { # <as start_httpd>...
  start_httpd 'VhostLimit On' "$GOLD" -v 'a VhostLimitPlan gold' -v 'b VhostLimitPlan gold' "$@"
}

@test "a change of a plan changes its sites, except limits that the sites have themselves" {
  start_gold -v 'b VhostLimitWeight 50'
  is "$(weights)" '300 50 100'
  try ctl set --plan gold weight=400 cpu=80%
  is "$status $output" '0 plan gold (2 sites): weight 400 (configured: 300), concurrency 20, cpu 80% (configured: not set)'
  is "$(weights)" '400 50 100'
  is "$(control_of a cpu) $(control_of b cpu) $(control_of c cpu)" '80 80 0'
  is "$(control_of a overridden)" '{}' "a's limits are those of its plan"
  error_log_has 'VL0031: site a\.test: limits changed from weight 300, .* to weight 400, .*CPU 80% by plan gold'
  try ctl reset --plan gold
  is "$(weights) $(control_of b cpu)" '300 50 100 0'
}

@test "a limit that was set at a site stays when its plan changes, and reset returns to the plan" {
  start_gold
  ctl set a.test weight=5 >/dev/null
  ctl set --plan gold weight=400 >/dev/null
  is "$(weights)" '5 400 100'
  try ctl reset a.test
  like "$output" 'weight 400, concurrency 20'
}

@test "a change of a plan holds over restarts and for new sites, and ends when the section changes" {
  start_gold
  ctl set --plan gold weight=400 >/dev/null
  ctl set a.test weight=5 >/dev/null
  rewrite 's/ServerName c\.test.*/&\nVhostLimitPlan gold/'
  graceful_httpd
  is "$(weights)" '5 400 400'
  restart_httpd
  is "$(weights)" '5 400 400'
  rewrite 's/VhostLimitWeight 300/VhostLimitWeight 200/'
  graceful_httpd
  is "$(weights)" '200 200 200'
}

@test "plans are listed with their limits and the number of their sites" {
  start_gold -x $'<VhostLimitPlan none-yet>\nVhostLimitMemory 512M\n</VhostLimitPlan>'
  ctl set --plan gold weight=400 >/dev/null
  try ctl plans
  like "$output" 'PLAN +SITES +WEIGHT'
  like "$output" 'gold +2 +400\* +20 +- +- +- +- +-'
  like "$output" 'none-yet +0 +- +- +- +- +512M +- +-'
  is "$(ctl plans --json | jq -c '.plans[0] | [.name, .limits.weight, .overridden, .sites]')" '["gold",400,{"weight":300},["a.test","b.test"]]'
  like "$(ctl plans --json | jq -r '.plans[1].place')" 'httpd\.conf:[0-9]+$'
  try ctl set --plan bronze weight=4
  is "$status $output" '1 vhostlimitctl: there is no <VhostLimitPlan bronze>'
  try ctl set --plan gold weight=0
  like "$status $output" "^1 .*VhostLimitWeight: '0' is not"
  is "$(weights)" '400 400 100'
}

@test "the cgroups of a plan's sites have its limits of memory, processes and CPU" {
  requires cgroups cpu memory pids
  local group
  start_httpd 'VhostLimit On' $'<VhostLimitPlan m>\nVhostLimitMemory 64M\nVhostLimitProcesses 50\n</VhostLimitPlan>' -v 'a VhostLimitPlan m'
  group=$(httpd_cgroup)/a.test
  is "$(cgroup_value "$group" memory.limit_in_bytes memory.max)" 67108864
  ctl set --plan m memory=128M processes=60 >/dev/null
  is "$(cgroup_value "$group" memory.limit_in_bytes memory.max)" 134217728
  is "$(cgroup_value "$group" pids.max)" 60
  graceful_httpd
  is "$(cgroup_value "$group" pids.max)" 60
}

@test "VhostLimitAccounts Host: changes of a plan, timed changes and files reach the accounts of hosts" {
  start_gold -v 'a ServerAlias *.shop.test' -v 'a VhostLimitAccounts Host'
  get one.shop / >/dev/null
  is "$(control_of_host weight)" 300
  ctl set --plan gold weight=400 >/dev/null
  is "$(control_of_host weight)" 400
  ctl set a.test concurrency=5 --for 1h >/dev/null
  is "$(control_of_host concurrency) $(control_of_host expires_s.concurrency)" '5 3600'
  try ctl set --file - <<<$'site,weight\none.shop.test,7'
  is "$status" 1
  like "$output" "'one\.shop\.test' is a host of site a\.test .*: change those of a\.test. Nothing is changed"
  ctl set --file - <<<$'site,weight\na.test,7' >/dev/null
  is "$(control_of_host weight)" 7
}
control_of_host() { ask 'status\tone.shop.test\n' | jq -r ".vhosts[0].$1"; }  # <key>

# ---- changes with an end time ------------------------------------------------

@test "a timed change ends after its time, in shared memory and in the kernel" {
  requires cgroups cpu cc
  local group
  start_with_clock 'VhostLimit On' -v 'a VhostLimitWeight 200'
  group=$(httpd_cgroup)/a.test
  try ctl set a.test weight=300 concurrency=4 --for 2h
  like "$output" 'weight 300 \(configured: 200; ends in (2 h 0|1 h 59) min\), concurrency 4 \(configured: 0; ends in'
  ctl set a.test queue=5 >/dev/null
  pass_time 7000
  is "$(control_of a weight)" 300
  pass_time 300
  poke
  wait_until 10 is_now 'a weight' 200
  is "$(control_of a 'overridden | tojson')" '{"queue":1000}'
  like "$(cgroup_value "$group" cpu.shares cpu.weight)" '^(2048|200)$'
  error_log_has 'VL0031: site a\.test: limits changed from weight 300, concurrency 4, queue 5, CPU none to weight 200, concurrency 0, queue 5, CPU none: the time of the change is over'
}
is_now() { [[ $(control_of "${1% *}" "${1#* }") == "$2" ]]; }  # <"vhost key"> <value>
# The thread that waits for the end does not notice a clock that a test moves.
poke() { ask 'modules\n' >/dev/null; }

@test "a change of one second ends without another command" {
  start_httpd 'VhostLimit On' "$GOLD" -v 'a VhostLimitPlan gold'
  ctl set b.test weight=300 --for 1s >/dev/null
  ctl set --plan gold weight=7 --for 1s >/dev/null
  wait_until 10 error_log_has 'VL0031: site b\.test: .* to weight 100, .*: the time of the change is over'
  wait_until 10 error_log_has 'VL0031: site a\.test: .* to weight 300, .* by plan gold: the time of the change is over'
  is "$(weights)" '300 100 100'
}

@test "a restart does not change the end time of a change" {
  requires cc
  start_with_clock 'VhostLimit On'
  ctl set a.test weight=300 --for 1h >/dev/null
  graceful_httpd
  restart_httpd
  is "$(control_of a weight)" 300
  like "$(control_of a expires_s.weight)" '^3[56][0-9][0-9]$'
  pass_time 3700
  graceful_httpd
  wait_until 10 is_now 'a weight' 100
}

@test "an earlier change without an end time is restored when a timed change ends, and reset ends both" {
  requires cc
  start_with_clock 'VhostLimit On'
  ctl set a.test weight=300 >/dev/null
  ctl set a.test weight=500 --for 1h >/dev/null
  pass_time 3700
  poke
  wait_until 10 is_now 'a weight' 300
  ctl set a.test weight=500 --for 1h >/dev/null
  ctl reset a.test >/dev/null
  pass_time 3700
  poke
  is "$(control_of a weight)" 100
}

@test "an invalid time is refused" {
  start_httpd 'VhostLimit On'
  local time
  for time in 0 2x -1 '' 367d h; do
    try ctl set a.test weight=5 --for "$time"
    is "$status" 2 "--for '$time'"
    like "$output" "'$time' is no time"
  done
  try ctl top --for 2h
  is "$status" 2
  is "$(control_of a weight)" 100
}

# ---- memory, processes and I/O -----------------------------------------------------

@test "set and reset change memory, processes and I/O of a site in the kernel" {
  requires cgroups memory pids io
  local group
  start_httpd 'VhostLimit On' -v 'a VhostLimitMemory 64M' -v 'a VhostLimitProcesses 40' -v 'a VhostLimitIO 10M'
  group=$(httpd_cgroup)/a.test
  try ctl set a.test memory=128M processes=none io=5M
  like "$output" 'memory 128M \(configured: 64M\), processes none \(configured: 40\), io 5M \(configured: 10M\)'
  is "$(cgroup_value "$group" memory.limit_in_bytes memory.max) $(cgroup_value "$group" pids.max)" '134217728 max'
  like "$(cgroup_value "$group" blkio.throttle.read_bps_device io.max)" '[: =]5242880'
  restart_httpd
  is "$(cgroup_value "$group" memory.limit_in_bytes memory.max) $(cgroup_value "$group" pids.max)" '134217728 max'
  ctl reset a.test >/dev/null
  is "$(cgroup_value "$group" memory.limit_in_bytes memory.max) $(cgroup_value "$group" pids.max)" '67108864 40'
  try ctl set a.test memory=1K
  like "$status $output" "^1 .*VhostLimitMemory: '1K' is not none or a number of bytes"
}

@test "a limit whose controller is not in use is enforced after a restart, and the answer says so" {
  requires cgroups memory
  start_httpd 'VhostLimit On' "VhostLimitCgroup $(httpd_cgroup)"
  try ctl set a.test memory=64M
  like "$status $output" '^0 .*memory 64M \(configured: none\).*does not enforce all of them: the memory controller is missing: no site had such a limit when the server was started'
  graceful_httpd
  is "$(cgroup_value "$(httpd_cgroup)/a.test" memory.limit_in_bytes memory.max)" 67108864
  is "$(control_of a unenforced)" ''
}

# ---- many sites at once ------------------------------------------------------------

@test "a file changes many sites at once" {
  start_httpd 'VhostLimit On'
  printf '%s\r\n' '# a comment' 'weight,site,"for",cpu' '7,a.test,,50%' ',c.test,,' '"9","b.test",1h,' >"$BATS_TEST_TMPDIR/file.csv"
  try ctl set --file "$BATS_TEST_TMPDIR/file.csv"
  is "$status $output" '0 limits of 2 sites changed'
  is "$(weights) $(control_of a cpu)" '7 9 100 50'
  is "$(control_of a expires_s) $(control_of b 'expires_s | keys | tojson')" '{} ["weight"]'
  is "$(printf 'site,weight\nb.test,33\n' | ctl set --json --file - --for 5min)" '{"changed":1}'
  is "$(weights)" '7 33 100'
}

@test "a file with one wrong line changes nothing" {
  start_httpd 'VhostLimit On'
  local line
  for line in "c.test,0|line 4: VhostLimitWeight: '0' is not" "none.test,1|line 4: 'none.test' is no site that takes part\. Nothing is changed" \
    "A.test,5|line 4: site a\.test is in line 1 too" 'c.test|line 4: 1 cell in place of 2' ',5|line 4: no site is named' '"c.test,5|line 4: the quotation marks are not closed'; do
    printf '%s\n' 'site,weight' '# comment' 'a.test,7' "${line%%|*}" >"$BATS_TEST_TMPDIR/file.csv"
    try ctl set --file "$BATS_TEST_TMPDIR/file.csv"
    is "$status" 1 "$line"
    like "$output" "${line#*|}"
  done
  is "$(weights)" '100 100 100'
  for line in 'weight' 'site,weight,weight' 'site,wieght' ''; do
    try ctl set --file - <<<"$line"
    is "$status" 1 "heading '$line'"
  done
  try ctl set --file /nowhere
  is "$status" 1
}

@test "VhostLimitOnError closed: a file with one limit that the kernel cannot enforce changes nothing" {
  requires cgroups memory
  start_httpd 'VhostLimit On' 'VhostLimitOnError closed' -v 'a VhostLimitCPU 50%' "VhostLimitCgroup $(httpd_cgroup)"
  printf '%s\n' 'site,cpu,memory' 'a.test,70%,' 'b.test,,1G' >"$BATS_TEST_TMPDIR/file.csv"
  try ctl set --file "$BATS_TEST_TMPDIR/file.csv"
  like "$status $output" '^1 .*site b\.test: the limit cannot be enforced'
  is "$(control_of a cpu)" 50
  like "$(cgroup_value "$(httpd_cgroup)/a.test" cpu.cfs_quota_us cpu.max)" '^50000( 100000)?$'
}

@test "an incomplete bulk command changes nothing, and delays no other command" {
  start_httpd 'VhostLimit On'
  (ask_half 'bulk\t40\nset\ta.test\tweight=7\n' >"$BATS_TEST_TMPDIR/half") 3>&- &
  is "$(control_of b weight)" 100
  wait_until 20 test -s "$BATS_TEST_TMPDIR/half"
  is "$(<"$BATS_TEST_TMPDIR/half") $(weights)" 'closed 100 100 100'
  is "$(error_of 'bulk\t23\nset\ta.test\tweight=0007\n')" null
  is "$(weights)" '7 100 100'
  is "$(error_of 'bulk\t7\nstatus\n')" 'line 1: only set and reset may follow bulk. Nothing is changed'
}
