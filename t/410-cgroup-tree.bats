#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The tree of cgroups: made at start, gone after the end, others' groups kept.

load lib/live

# Every account of the status page has its group where the page says.
groups_exist() {
  local path paths
  paths=$(status_json | jq -r '.vhosts[].cgroup')
  [[ -n $paths ]] || return 1
  for path in $paths; do cgroup_exists "$path" || return; done
}

cgroup_field() { status_json | jq -r ".cgroup.$1"; }   # <field>

# bats test_tags=v2
@test "each account has a group after the start" {
  requires cgroups
  start_httpd 'VhostLimit On'
  like "$(cgroup_field backend)" '^(v1|v2|hybrid)$'
  is "$(status_json | jq '.vhosts | length')" 4 "accounts: a, b, c and the main server"
  groups_exist
}

@test "the groups are below the path that was configured" {
  requires cgroups
  start_httpd 'VhostLimit On' "VhostLimitCgroup $(httpd_cgroup)/deep/er"
  is "$(cgroup_field path)" "$(httpd_cgroup)/deep/er"
  is "$(status_of a cgroup)" "$(httpd_cgroup)/deep/er/a.test"
  groups_exist
  stop_httpd
  wait_until 5 cgroup_gone "$(httpd_cgroup)/deep/er"
  wait_until 5 cgroup_remove "$(httpd_cgroup)"       # what is above the tree is not the module's
}

@test "the tree is gone after the end" {
  requires cgroups
  start_httpd 'VhostLimit On'
  cgroup_exists "$(httpd_cgroup)"
  stop_httpd
  wait_until 5 cgroup_gone "$(httpd_cgroup)"
}

@test "a graceful and a full restart keep the groups" {
  requires cgroups
  start_httpd 'VhostLimit On'
  graceful_httpd; groups_exist
  restart_httpd; groups_exist
}

@test "a vhost that a restart takes away loses its group, a new one gets its own" {
  requires cgroups
  start_httpd 'VhostLimit On'
  configure_httpd 'VhostLimit On' -o 'd a'
  graceful_httpd
  wait_until 10 cgroup_gone "$(httpd_cgroup)/b.test"
  groups_exist
  like "$(status_of d cgroup)" '/d\.test$'
}

@test "auto makes its groups below the one the server runs in" {
  requires cgroups
  start_httpd 'VhostLimit On' 'VhostLimitCgroup auto'
  isnt "$(cgroup_field path)" ''
  groups_exist
  local path
  path=$(cgroup_field path)
  stop_httpd
  wait_until 5 cgroup_gone "$path/a.test"
}

@test "off makes no group and needs none" {
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off' -v 'a VhostLimitConcurrency 1'
  is "$(cgroup_field backend) $(cgroup_field path)" 'off '
  cgroup_gone "$(httpd_cgroup)"
  hold_request one
  is "$(get a /)" 503
}

@test "where no tree can be made the server serves without, and says so once" {
  start_httpd 'VhostLimit On' 'VhostLimitCgroup /cgroup.procs/x' -v 'a VhostLimitConcurrency 1'
  is "$(cgroup_field backend)" off
  isnt "$(cgroup_field reason)" '' "reason"
  hold_request one
  is "$(get a /) $(get b /)" '503 200'
  is "$(grep -c '\[vhostlimit:.*cgroup' "$HTTPD_ROOT/logs/error.log")" 1 "lines about cgroups in the log"
}

@test "groups of others are left alone, beside the tree and in it" {
  requires cgroups
  local root
  root=$(cgroup_cpu_root)
  mkdir -p "$root$(httpd_cgroup)/other"
  start_httpd 'VhostLimit On'
  stop_httpd
  [[ -d $root$(httpd_cgroup)/other ]] || fail "somebody else's group was removed"
  cgroup_gone "$(httpd_cgroup)/a.test"
  rmdir "$root$(httpd_cgroup)/other" "$root$(httpd_cgroup)"
}

@test "what a crashed server left is taken over and removed in the end" {
  requires cgroups
  start_httpd 'VhostLimit On'
  crash_httpd
  cgroup_exists "$(httpd_cgroup)"
  launch_httpd
  groups_exist
}

@test "a name that is no file name makes a group all the same, and only below the tree" {
  requires cgroups
  start_httpd 'VhostLimit On' -x "<VirtualHost 127.0.0.2:$(httpd_port)>" \
    -x 'ServerName ../../up' -x '</VirtualHost>'
  groups_exist
  like "$(status_json | jq -r '.vhosts[] | select(.name | contains("up")) | .cgroup')" \
    "^$(httpd_cgroup)/[^/]+\$"
}
