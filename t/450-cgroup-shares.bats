#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bats file_tags=v2
#
# Weights and caps in the kernel, and the groups of threads and programs.

load lib/live

export ONE_SERVER=yes

setup_file() {
  meets cgroups cpu mod_lua || return 0
  start_httpd 'VhostLimit On' -l lua -v 'a VhostLimitWeight 300' -v 'c VhostLimitCPU 25%' \
    -v "a LuaMapHandler /burn $HTTPD_ROOT/lua/burn.lua"
}

setup() {
  busy_pids=()
  requires cgroups cpu mod_lua
}

end_busy() { ((${#busy_pids[@]} == 0)) || kill "${busy_pids[@]}"; }
teardown() { all_of end_busy look_for_leftovers; }

teardown_file() { end_server; }

group_of() { printf '%s/%s.test\n' "$(httpd_cgroup)" "$1"; }  # <vhost>

# Starts a back end of the vhost that uses all CPU time of the first CPU that it may use.
make_busy() { # <vhost>
  local cpu
  cpu=$(taskset -pc $$ | grep -oE '[0-9]+' | sed -n 2p)
  (in_cgroup "$(group_of "$1")" taskset -c "$cpu" sh -c 'while :; do :; done') 3>&- 4>&- &
  busy_pids+=($!)
  wait_until 10 grep -q "$(group_of "$1")" "/proc/$!/cgroup"
}

burnt_ms() { awk '{ print ($14 + $15) * 10 }' "/proc/$1/stat"; }                   # <pid>
have_burnt() { (($(burnt_ms "${busy_pids[0]}") + $(burnt_ms "${busy_pids[1]}") >= $1)); }  # <ms>

@test "two busy back ends share a CPU by their vhosts' weights" {
  local a b before_a before_b
  make_busy a
  make_busy b
  before_a=$(burnt_ms "${busy_pids[0]}") before_b=$(burnt_ms "${busy_pids[1]}")
  wait_until 60 have_burnt $((before_a + before_b + 1500))
  a=$(($(burnt_ms "${busy_pids[0]}") - before_a)) b=$(($(burnt_ms "${busy_pids[1]}") - before_b))
  at_least "$a" $((b * 2)) "ms of a, whose weight is 300, beside $b ms of b, whose weight is 100"
  at_most "$a" $((b * 9 / 2)) "ms of a, beside $b ms of b"
}

was_throttled() { # <vhost> <times>
  (($(cgroup_value "$(group_of "$1")" cpu.stat | awk '$1 == "nr_throttled" { print $2 }') >= $2))
}

# The bound is a quarter, with a margin for a machine that is itself kept waiting for its
# CPU.
@test "a capped back end gets no more than its cap of an otherwise idle CPU" {
  local from until got
  make_busy c
  got=$(burnt_ms "${busy_pids[0]}") from=${EPOCHREALTIME/./}
  wait_until 60 was_throttled c 10
  until=${EPOCHREALTIME/./}
  got=$(($(burnt_ms "${busy_pids[0]}") - got))
  at_most "$got" $(((until - from) / 2000 + 100)) "ms, a quarter being due, of $(((until - from) / 1000)) ms"
}

works_in_group() { # <extended regular expression>
  is "$(get a /burn)" 200
  grep -qE ":$(httpd_cgroup)/$1\$" <<<"$(answer_body)"
}

@test "a thread of Apache that burns CPU time for a vhost is in the vhost's group" {
  requires event
  wait_until 20 works_in_group "(.server/a\.test|a\.test/threads)"
  local pid
  for pid in $(httpd_children) $(httpd_pid); do
    grep -qE ":$(httpd_cgroup)/\.server\$" "/proc/$pid/cgroup" || fail "process $pid is not in .server"
  done
}

@test "v2: the groups below the tree's root are delegated with the shares of threads" {
  [[ $(status_json | jq -r .cgroup.backend) == v2 ]] || skip "not v2"
  local tree
  tree=$(httpd_cgroup)
  like " $(cgroup_value "$tree" cgroup.subtree_control) " ' cpu '
  is "$(cgroup_value "$tree/.server" cgroup.type)" 'domain threaded'
  is "$(cgroup_value "$tree/.server/a.test" cgroup.type)" threaded
  is "$(cgroup_value "$tree/.server/a.test" cpu.weight) $(cgroup_value "$(group_of a)" cpu.weight)" '300 300'
  is "$(cgroup_value "$tree/.server/c.test" cpu.max) $(cgroup_value "$(group_of c)" cpu.max)" '25000 100000 25000 100000'
}
