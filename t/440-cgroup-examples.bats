#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# in-vhost, which starts a back end in its vhost's group.

load lib/live

IN_VHOST=$TOP/conf/systemd/in-vhost

in_vhost() { # <vhost> <command>...
  APACHE_PID_FILE=$HTTPD_ROOT/run/httpd.pid try "$IN_VHOST" "$@"
}

@test "in-vhost finds the tree by itself and runs a command in the vhost's group" {
  requires cgroups
  start_httpd 'VhostLimit On'
  in_vhost "a.test:$(httpd_port)" cat /proc/self/cgroup
  is "$status" 0
  like "$output" ":$(httpd_cgroup)/a\.test:$(httpd_port)"$'(\n|$)'
}

@test "in-vhost enters the group of several vhosts, and a tree that it is told of" {
  requires cgroups
  start_httpd -v 'a VhostLimitGroup us' -v 'b VhostLimitGroup us' 'VhostLimit On'
  VHOSTLIMIT_TREE=$(httpd_cgroup) in_vhost @us cat /proc/self/cgroup
  is "$status" 0
  like "$output" ":$(httpd_cgroup)/_us"$'(\n|$)'
}

@test "in-vhost says that there is no such group, and runs the command all the same" {
  requires cgroups
  start_httpd 'VhostLimit On'
  in_vhost nobody.test:1 echo runs
  is "$status" 0
  like "$output" "there is no group $(httpd_cgroup)/nobody.test:1: echo runs outside"
  is "${lines[-1]}" runs
}
