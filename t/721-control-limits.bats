#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Changes of limits at run time: they apply at once, in all children, until the
# configuration changes.

load lib/live
load lib/control

setup() { requires root ctl; }

rewrite() { # <sed expression>: the configuration
  sed -i "$1" "$HTTPD_ROOT/httpd.conf"
}

at_least_running() { (($(cat "$HTTPD_ROOT/hold"/h*.in 2>/dev/null | wc -l) >= $1)); }  # <number>

# Lifts a limit for twenty waiting requests, the given number of times. Prints for each
# change the us until all have been affected and the us until the answer. Fails if a
# request fails.
change_times() { # <times> [command]...
  repeat "$1" perl "$TOP/t/lib/limit_delay.pl" "$(httpd_port)" "$(control_socket)" 20 "${@:2}"
}
ms_of()    { awk '{ printf "%s%.1f", sep, $1 / 1000; sep = " " }' <<<"$1"; }  # <lines>

begin_held() { # <number>: requests for a.test that wait for h1, h2, ...
  local n
  for ((n = 1; n <= $1; n++)); do
    mkfifo -m 666 "$HTTPD_ROOT/hold/h$n.fifo"
    begin_request "h$n" a "/cgi/hold.sh?h$n"
  done
}

@test "a higher concurrency limit dispatches queued requests at once" {
  start_httpd 'VhostLimit On' 'VhostLimitSlots 30' -v 'a VhostLimitConcurrency 1'
  begin_held 12
  settles a waiting 11
  is "$(ask 'set\ta.test\tconcurrency=12\n' | jq '.vhosts[0].concurrency')" 12
  wait_until 10 at_least_running 12
  release_all
  is "$(for n in {1..12}; do answer_of "h$n"; done | sort -u)" 200
}

@test "a change under load affects every child, and no request fails" {
  requires ab
  local load_pid line program
  start_httpd 'VhostLimit On' -x "CustomLog \"$HTTPD_ROOT/logs/pids.log\" \"%v %P\""
  hold_request one a
  ab -q -t 60 -n 1000000 -c 20 -H 'Host: b.test' "http://127.0.0.1:$(httpd_port)/page.html" >"$BATS_TEST_TMPDIR/ab" 2>&1 3>&- 4>&- &
  load_pid=$!
  wait_until 10 requests_are b 100
  line=$(change_times 5)
  program=$(change_times 3 "$CTL" -s "$(control_socket)" set a.test concurrency=0)
  kill -INT "$load_pid"; wait "$load_pid" || :
  echo "# ms from the command at the socket to its effect on all 20 that waited: $(ms_of "$line")" >&3
  echo "# ms from the start of vhostlimitctl to the same: $(ms_of "$program")" >&3
  is "$(wc -l <<<"$line") $(wc -l <<<"$program")" '5 3' "changes that affected all twenty"
  like "$(<"$BATS_TEST_TMPDIR/ab")" 'Failed requests: +0' "requests of the load"
  release_request one
  wait_until 20 test -s "$HTTPD_ROOT/logs/pids.log"
  at_least "$(grep '^a' "$HTTPD_ROOT/logs/pids.log" | sort -u | wc -l)" 2 "children that answered"
}
requests_are() { (($(status_of "$1" requests) >= $2)); }  # <vhost> <at least>

@test "a lower concurrency limit applies to the next request" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0'
  hold_request one
  ask 'set\ta.test\tconcurrency=1\n' >/dev/null
  is "$(get a /) $(get a /) $(get b /)" '503 503 200'
  ask 'reset\ta.test\n' >/dev/null
  is "$(get a /)" 200
}

@test "a queue length above 0 queues requests, and 0 refuses them" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' 'VhostLimitConcurrency 1'
  hold_request one
  is "$(get a /)" 503
  ask 'set\ta.test\tqueue=1\n' >/dev/null
  begin_request two a /
  settles a waiting 1
  ask 'set\ta.test\tqueue=0\n' >/dev/null
  is "$(get a /)" 503
  release_request one
  is "$(answer_of two)" 200 "the request that was queued already"
}

@test "no request fails while limits change under load" {
  local n
  start_httpd 'VhostLimit On' 'VhostLimitSlots 4'
  begin_crowd load 400 a /page.html
  for n in {1..60}; do
    ask "set\ta.test\tweight=$((n * 10))\tconcurrency=$((n % 5 + 1))\tqueue=$((1000 + n))\tcpu=$((n * 10))%\n" |
      jq -e '.vhosts' >/dev/null
  done
  ask 'reset\ta.test\n' >/dev/null
  is "$(crowd_got load)" '400 200'
  is "$(error_log | grep -c VL0031)" 61 "changes logged"
}

@test "weight and quota in the kernel follow a change and its reset" {
  requires cgroups cpu
  local group
  start_httpd 'VhostLimit On' -v 'a VhostLimitCPU 80%'
  group=$(httpd_cgroup)/a.test
  ask 'set\ta.test\tweight=300\tcpu=50%\n' >/dev/null
  like "$(cgroup_value "$group" cpu.shares cpu.weight)" '^(3072|300)$'
  like "$(cgroup_value "$group" cpu.cfs_quota_us cpu.max)" '^50000( 100000)?$'
  ask 'set\ta.test\tcpu=none\n' >/dev/null
  like "$(cgroup_value "$group" cpu.cfs_quota_us cpu.max)" '^(-1|max 100000)$'
  ask 'reset\ta.test\n' >/dev/null
  like "$(cgroup_value "$group" cpu.shares cpu.weight)" '^(1024|100)$'
  like "$(cgroup_value "$group" cpu.cfs_quota_us cpu.max)" '^80000( 100000)?$'
}

@test "VhostLimitOnError closed: a limit that the kernel cannot enforce is rejected" {
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off' 'VhostLimitOnError closed'
  like "$(error_of 'set\ta.test\tweight=5\tcpu=50%\n')" '^site a\.test: the limit cannot be enforced: the cpu controller is missing'
  is "$(control_of a overridden)" '{}'
  is "$(ask 'set\ta.test\tweight=5\n' | jq '.vhosts[0].weight')" 5
}

@test "a change survives restarts, in the kernel too, until the directive changes" {
  requires cgroups cpu
  local group
  start_httpd 'VhostLimit On' -v 'a VhostLimitWeight 200' -v 'a VhostLimitConcurrency 9'
  group=$(httpd_cgroup)/a.test
  ask 'set\ta.test\tweight=300\tconcurrency=3\n' >/dev/null
  graceful_httpd
  restart_httpd
  is "$(control_of a weight) $(control_of a 'overridden | tojson')" '300 {"weight":200,"concurrency":9}'
  like "$(cgroup_value "$group" cpu.shares cpu.weight)" '^(3072|300)$'
  rewrite 's/VhostLimitWeight 200/VhostLimitWeight 400/'
  graceful_httpd
  is "$(control_of a weight) $(control_of a 'overridden | tojson')" '400 {"concurrency":9}'
  like "$(cgroup_value "$group" cpu.shares cpu.weight)" '^(4096|400)$'
}

@test "commands during a graceful restart are answered" {
  local n
  start_httpd 'VhostLimit On'
  (for ((n = 1; n <= 30; n++)); do ctl set a.test weight=$n; done >"$BATS_TEST_TMPDIR/answers" 2>&1) 3>&- &
  for n in 1 2 3 4; do graceful_httpd; done
  wait "$!"
  is "$(grep -c ': weight' "$BATS_TEST_TMPDIR/answers")" 30 "answers"
  is "$(control_of a weight)" 30
}

@test "changes are discarded when the server stops, and its socket is removed" {
  start_httpd 'VhostLimit On'
  ask 'set\ta.test\tweight=300\n' >/dev/null
  stop_httpd
  [[ ! -e $(control_socket) ]] || fail "the socket is still there"
  launch_httpd
  is "$(control_of a weight)" 100
}

@test "the socket of a killed server is replaced by the next server" {
  start_httpd 'VhostLimit On'
  crash_httpd
  try ctl top
  is "$status" 69
  launch_httpd
  is "$(control_of a weight)" 100
}

@test "a change through one vhost of a group applies to the whole group" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitGroup g' -v 'b VhostLimitGroup g'
  is "$(ask 'set\tb.test\tconcurrency=1\n' | jq -r '.vhosts[0].name')" @g
  hold_request one a
  is "$(get b /) $(get c /)" '503 200'
  is "$(ask 'reset\t@g\n' | jq -c '.vhosts[0].overridden')" '{}'
}

@test "worker, prefork: limits change at run time" {
  local mpm
  for mpm in worker prefork; do
    requires "$mpm"
    start_httpd -m "$mpm" 'VhostLimit On' 'VhostLimitQueue 0'
    hold_request one
    ask 'set\ta.test\tconcurrency=1\n' >/dev/null
    is "$(get a /)" 503 "$mpm"
    end_server
  done
}

@test "the status page marks changed values" {
  start_httpd 'VhostLimit On'
  ask 'set\ta.test\tweight=300\n' >/dev/null
  is "$(status_json | jq -c '[.vhosts[] | select(.overridden != {}) | .overridden]')" '[{"weight":100}]'
}
