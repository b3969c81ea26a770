#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Changes that last: vhostlimitctl set --save and the file that it writes.

load lib/live
load lib/control

setup() { requires root ctl; }

saved() { printf '%s\n' "$HTTPD_ROOT/saved.conf"; }
weights() { ask 'status\n' | jq -r '.vhosts[1:4][].weight' | xargs; }
start_saving() { start_httpd 'VhostLimit On' 'VhostLimitSaveFile saved.conf' "$@"; }  # <as start_httpd>...
no_traces() { [[ ! -e $(saved).new ]] || fail "$(saved).new is still there"; }

@test "a saved limit applies at once, and after a stop and start of the server" {
  start_saving -v 'a VhostLimitWeight 20'
  try ctl set --save A.test weight=300 queue=7
  is "$status" 0
  like "$output" "^a\.test: weight 300 \(configured: 20\).*Saved in $(saved)\."
  is "$(weights)" '300 100 100'
  stop_httpd
  launch_httpd
  is "$(weights) $(control_of a queue) $(control_of a overridden)" '300 100 100 7 {}'
  no_traces
}

@test "the file has time and user of each value, and a later command keeps them" {
  start_saving
  SUDO_USER=$'anna\n</x>' ctl set --save a.test weight=300 memory=1G >/dev/null
  ctl set --save b.test cpu=50% >/dev/null
  ctl set --save a.test weight=400 >/dev/null
  is "$(grep -c '^    # 20[0-9-]*T[0-9:]*Z, root' "$(saved)")" 3
  like "$(<"$(saved)")" '<VhostLimitSite "a\.test">.*VhostLimitWeight 400.*root for anna\?</x>'$'\n''    VhostLimitMemory 1G'$'\n''</VhostLimitSite>'
  is "$(grep -cE '^<VhostLimitSite|VhostLimitWeight 300' "$(saved)")" 2
  is "$(stat -c %a "$(saved)")" 644
  restart_httpd
  is "$(weights) $(control_of b cpu) $(control_of a memory)" '400 100 100 50 1073741824'
}

@test "reset --save removes limits from the file, also those of a removed site" {
  start_saving
  ctl set --save a.test weight=300 queue=7 >/dev/null
  ctl set --save b.test weight=400 >/dev/null
  try ctl reset --save a.test weight
  is "$status" 0
  like "$output" "No longer saved in $(saved)"
  is "$(weights)" '100 400 100'
  is "$(grep -c VhostLimitWeight "$(saved)")" 1
  sed -i 's/b\.test/gone.test/' "$(saved)"
  try ctl reset --save gone.test
  is "$status" 0
  ctl reset --save a.test >/dev/null
  is "$(grep -vc '^#' "$(saved)")" 0 "lines of configuration"
  stop_httpd
  launch_httpd
  is "$(weights)" '100 100 100'
}

@test "a wrong value or a broken configuration changes nothing" {
  local before
  start_saving
  ctl set --save a.test weight=300 >/dev/null
  before=$(<"$(saved)")
  try ctl set --save a.test weight=0
  is "$status" 1
  like "$output" "nothing is changed, because the configuration with the new limits is not valid: .*VhostLimitWeight: '0' is not"
  for words in 'weight=3x;' 'wieght=3' 'weight' 'weight=' 'cpu=50'; do
    try ctl set --save a.test "$words"
    is "$status" 1 "$words"
  done
  try ctl set --save none.test weight=5
  like "$status $output" "^1 .*'none.test' is no site"
  echo 'Nonsense' >>"$HTTPD_ROOT/httpd.conf"
  try ctl set --save a.test weight=5
  like "$status $output" "^1 .*nothing is changed.*Invalid command 'Nonsense'"
  is "$(<"$(saved)")" "$before"
  is "$(weights)" '300 100 100'
  no_traces
}

@test "a change that the running server refuses is not saved" {
  requires cgroups
  start_saving 'VhostLimitOnError closed' "VhostLimitCgroup $(httpd_cgroup)"
  try ctl set --save a.test memory=64M
  like "$status $output" '^1 .*the limit cannot be enforced'
  [[ ! -e $(saved) ]] || fail "it was saved"
  no_traces
}

@test "the program of a socket of another user is not run" {
  local socket=$BATS_TEST_TMPDIR/socket
  chmod 777 "$BATS_TEST_TMPDIR"
  chmod a+rx "$BATS_FILE_TMPDIR"
  # shellcheck disable=SC2016  # perl's own
  as_nobody perl -MSocket -e 'socket(my $s, PF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un($ARGV[0])) or die "$!\n";
    listen($s, 5); alarm 20; accept(my $c, $s); sysread($c, my $line, 99); syswrite($c, "{\"save_file\":\"/tmp/x\"}\n");' "$socket" 3>&- &
  wait_until 10 test -S "$socket"
  try "$CTL" -s "$socket" set --save a.test weight=5
  wait "$!"
  like "$status $output" '^1 .*the server runs as another user'
}

@test "a conflict with another section is found before the file is written" {
  start_saving -x $'<VhostLimitSite a.test>\nVhostLimitWeight 50\n</VhostLimitSite>'
  try ctl set --save a.test weight=60
  like "$status $output" '^1 .*VL0015: site a\.test: VhostLimitWeight is 60 in .*saved\.conf\.new:[0-9]+ and 50 in .*httpd\.conf'
  is "$(weights)" '50 100 100'
  [[ ! -e $(saved) ]] || fail "it was saved"
}

@test "a file with lines of another program is not changed" {
  start_saving
  echo 'ServerSignature Off' >"$(saved)"
  try ctl set --save a.test weight=5
  like "$status $output" "^1 .*saved\.conf:1: vhostlimitctl has not written this line, and nothing is changed"
  is "$(<"$(saved)") $(weights)" 'ServerSignature Off 100 100 100'
}

@test "simultaneous commands lose no change" {
  local n jobs=()
  start_saving
  for n in 1 2 3 4; do
    (ctl set --save a.test weight=$((100 + n)) >/dev/null; ctl set --save b.test queue=$((100 + n)) >/dev/null) 3>&- &
    jobs+=($!)
  done
  wait "${jobs[@]}"
  is "$(grep -c '^<VhostLimitSite' "$(saved)")" 2
  like "$(control_of a weight) $(control_of b queue)" '^10[1-4] 10[1-4]$'
  no_traces
}

@test "without VhostLimitSaveFile, and with wrong options, the message says what to do" {
  start_httpd 'VhostLimit On'
  try ctl set --save a.test weight=5
  like "$status $output" '^1 .*VhostLimitSaveFile .*at server level'
  is "$(weights)" '100 100 100'
  try ctl set --save a.test weight=5 --for 2h
  is "$status" 2
  try ctl set --save --plan gold weight=5
  is "$status" 2
  try ctl top --save
  is "$status" 2
}
