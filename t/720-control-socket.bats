#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The control socket: its permissions and its protocol.

load lib/live
load lib/control
export ONE_SERVER=yes

setup_file() {
  meets root || return 0
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 2' \
    -x "<VirtualHost 127.0.0.2:$(httpd_port)>" -x $'ServerName "<b>x&y\\"z `id` \e[31m"' -x '</VirtualHost>'
}

setup() { requires root ctl; }

teardown_file() { end_server; }

@test "only root may use the socket" {
  is "$(stat -c '%A %U' "$(control_socket)")" 'srw------- root'
}

@test "the server closes connections of other users, also if they can reach the socket" {
  local answer
  chmod a+x "$HTTPD_ROOT" "$HTTPD_ROOT/run"
  chmod 666 "$(control_socket)"
  answer=$(as_nobody bash -c "$(declare -f control_perl control_socket ask); HTTPD_ROOT=$HTTPD_ROOT ask 'set\ta.test\tweight=7\n'" 2>&1) || :
  chmod 600 "$(control_socket)"
  is "$answer" '' "answer to another user"
  is "$(control_of a weight)" 100
  try as_nobody "$CTL" -s "$(control_socket)" top
  is "$status" 77
  like "$output" 'Permission denied'
}

@test "status prints the document of ?json" {
  is "$(ask 'status\n' | jq -c 'del(.state, (.. | numbers))')" "$(status_json | jq -c 'del(.state, (.. | numbers))')"
  is "$(ask 'status\ta.test\n' | jq -r '.vhosts | length')" 1
}

@test "an invalid command is answered with an error" {
  is "$(error_of '\n')" "'' is no such command"
  is "$(error_of 'stop\n')" "'stop' is no such command"
  is "$(error_of 'set\ta.test\n')" "'set' is nothing to be set"
  is "$(error_of 'set\ta.test\tmode=off\n')" "'mode' is no such key: there are weight, concurrency, queue, cpu, memory, processes and io"
  is "$(error_of 'set\tnone.test\tweight=2\n')" "'none.test' is no site that takes part"
  is "$(error_of 'status\0\n')" "'' is a command with a byte in it that is no text"
}

@test "a command that is too long is refused" {
  local long
  long=$(head -c 20000 /dev/zero | tr '\0' a)
  is "$(error_of "status\t$long\n")" "'' is a command that is too long"
}

@test "invalid values are rejected as in directives, and nothing is set" {
  is "$(error_of 'set\ta.test\tqueue=5\tweight=0\n')" "VhostLimitWeight: '0' is not a whole number from 1 to 10000"
  is "$(error_of 'set\ta.test\tconcurrency=-1\n')" "VhostLimitConcurrency: '-1' is not a whole number from 0 to 1000000"
  is "$(error_of 'set\ta.test\tqueue=5 s\n')" "VhostLimitQueue: '5 s' is not a whole number from 0 to 1000000"
  is "$(error_of 'set\ta.test\tcpu=50\n')" "VhostLimitCPU: '50' is not none or a whole percentage from 1% to 100000%"
  is "$(control_of a overridden)" '{}'
}

@test "a hostile site name is quoted in the document and shown without control characters" {
  local name
  name=$(ask 'status\n' | jq -r '.vhosts[].name | select(contains("x&y"))')
  like "$name" '^<b>x&y"z'
  is "$(ask "set\t$name\tweight=9\n" | jq -r '.vhosts[0].weight')" 9
  try ctl show "$name"
  is "$status" 0
  [[ $output != *$'\e'* ]] || fail "a control character is in the output"
  try ctl explain "$name"
  is "$status" 0
  ctl reset "$name" >/dev/null
  is "$(error_of 'status\t<script>\n')" "'<script>' is no site that takes part"
  [[ $(ask 'status\t<script>\n') != *'<script>'* ]] || fail "the name is not escaped"
}

@test "a ServerName without its port names the vhost, in upper or lower case" {
  is "$(ask 'status\tA.Test\n' | jq -r '.vhosts[0].name')" "a.test"
}

@test "incomplete commands time out and do not delay others" {
  local n
  for n in 1 2 3; do (ask_half 'set\ta.test\tweight=7' >"$BATS_TEST_TMPDIR/half.$n") 3>&- & done
  (ask_half '' >"$BATS_TEST_TMPDIR/half.4") 3>&- &
  is "$(control_of b weight)" 100 "while others have not ended"
  for n in 1 2 3 4; do wait_until 10 test -s "$BATS_TEST_TMPDIR/half.$n"; done
  is "$(cat "$BATS_TEST_TMPDIR"/half.* | sort -u)" closed
  is "$(control_of a weight)" 100
}

@test "more simultaneous commands than handlers are all answered" {
  local n
  for n in {1..24}; do
    (ask "set\tc.test\tweight=$((100 + n))\n" | jq -r '.vhosts[0].name' >"$BATS_TEST_TMPDIR/answer.$n") 3>&- &
  done
  for n in {1..24}; do wait_until 20 test -s "$BATS_TEST_TMPDIR/answer.$n"; done
  is "$(cat "$BATS_TEST_TMPDIR"/answer.* | sort -u)" "c.test"
  like "$(control_of c weight)" '^1[012][0-9]$'
  ask 'reset\tc.test\n' >/dev/null
}

@test "child processes hold no descriptor of the socket" {
  local inode child
  inode=$(awk -v path="$(control_socket)" '$NF == path && $4 == "00010000" { print $7 }' /proc/net/unix)
  like "$inode" '^[0-9]+$'
  is "$(find "/proc/$(httpd_pid)/fd" -lname "socket:?$inode?" | wc -l)" 1 "the parent's"
  for child in $(httpd_children); do
    is "$(find "/proc/$child/fd" -lname "socket:?$inode?" | wc -l)" 0 "a child's"
  done
}

@test "a change is logged with the old and the new values" {
  ask 'set\tb.test\tweight=250\tqueue=3\n' >/dev/null
  error_log_has "VL0031: site b\.test: limits changed from weight 100, concurrency 0, queue 1000, CPU none to weight 250, concurrency 0, queue 3, CPU none"
  ask 'reset\tb.test\n' >/dev/null
}
