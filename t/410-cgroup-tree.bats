#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The tree of cgroups: created at start and removed at the end. Cgroups of other programs
# are kept.

load lib/live

# Every account of the status page has its group at the path on the page.
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

# With a greater weight, a PHP-FPM outside of the tree would get no CPU time while Apache's threads use all of it.
# bats test_tags=v2
@test "the tree has the weight of any other group" {
  requires cgroups cpu
  start_httpd 'VhostLimit On'
  like "$(cgroup_value "$(httpd_cgroup)" cpu.weight cpu.shares)" '^(100|1024)$'
}

@test "the groups are below the configured path" {
  requires cgroups
  start_httpd 'VhostLimit On' "VhostLimitCgroup $(httpd_cgroup)/deep/er"
  is "$(cgroup_field path)" "$(httpd_cgroup)/deep/er"
  is "$(status_of a cgroup)" "$(httpd_cgroup)/deep/er/a.test"
  groups_exist
  stop_httpd
  wait_until 20 cgroup_gone "$(httpd_cgroup)/deep/er"
  wait_until 20 cgroup_remove "$(httpd_cgroup)"       # the module does not remove the folders above the tree
}

@test "the tree is removed at the end" {
  requires cgroups
  start_httpd 'VhostLimit On'
  cgroup_exists "$(httpd_cgroup)"
  stop_httpd
  wait_until 20 cgroup_gone "$(httpd_cgroup)"
}

@test "a graceful and a full restart keep the groups" {
  requires cgroups
  start_httpd 'VhostLimit On'
  graceful_httpd; groups_exist
  restart_httpd; groups_exist
}

@test "a restart removes the group of a removed vhost and creates that of a new one" {
  requires cgroups
  start_httpd 'VhostLimit On'
  configure_httpd 'VhostLimit On' -o 'd a'
  graceful_httpd
  wait_until 10 cgroup_gone "$(httpd_cgroup)/b.test"
  groups_exist
  like "$(status_of d cgroup)" '/d\.test$'
}

@test "VhostLimitCgroup auto creates groups below the group of the server" {
  requires cgroups
  start_httpd 'VhostLimit On' 'VhostLimitCgroup auto'
  isnt "$(cgroup_field path)" ''
  groups_exist
  local path
  path=$(cgroup_field path)
  stop_httpd
  wait_until 20 cgroup_gone "$path/a.test"
}

@test "VhostLimitCgroup off creates no group and needs none" {
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  is "$(cgroup_field backend) $(cgroup_field path)" 'off '
  cgroup_gone "$(httpd_cgroup)"
  hold_request one
  is "$(get a /)" 503
}

@test "a tree that cannot be created: the server runs without it, and the log has one line about it" {
  start_httpd 'VhostLimit On' 'VhostLimitCgroup /cgroup.procs/x' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  is "$(cgroup_field backend)" off
  isnt "$(cgroup_field reason)" '' "reason"
  hold_request one
  is "$(get a /) $(get b /)" '503 200'
  is "$(grep -c '\[vhostlimit:.*cgroup' "$HTTPD_ROOT/logs/error.log")" 1 "lines about cgroups in the log"
}

@test "groups of other programs are kept, beside the tree and inside it" {
  requires cgroups
  local root
  root=$(cgroup_cpu_root)
  mkdir -p "$root$(httpd_cgroup)/other"
  start_httpd 'VhostLimit On'
  stop_httpd
  [[ -d $root$(httpd_cgroup)/other ]] || fail "a group of another program was removed"
  cgroup_gone "$(httpd_cgroup)/a.test"
  rmdir "$root$(httpd_cgroup)/other" "$root$(httpd_cgroup)"
}

@test "the next server takes over the groups of a crashed one and removes them at its end" {
  requires cgroups
  start_httpd 'VhostLimit On'
  crash_httpd
  cgroup_exists "$(httpd_cgroup)"
  launch_httpd
  groups_exist
}

@test "a site name that is no valid file name gets a group, inside the tree" {
  requires cgroups
  start_httpd 'VhostLimit On' -x "<VirtualHost 127.0.0.2:$(httpd_port)>" \
    -x 'ServerName ../../up' -x '</VirtualHost>'
  groups_exist
  like "$(status_json | jq -r '.vhosts[] | select(.name | contains("up")) | .cgroup')" \
    "^$(httpd_cgroup)/[^/]+\$"
}
