#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# in-vhost, which starts a back end in its vhost's group, and the pool of the guide.

load lib/live

IN_VHOST=$TOP/conf/systemd/in-vhost

in_vhost() { # <vhost> <command>...
  APACHE_PID_FILE=$HTTPD_ROOT/run/httpd.pid try "$IN_VHOST" "$@"
}

@test "in-vhost finds the tree and runs a command in the vhost's group" {
  requires cgroups
  start_httpd 'VhostLimit On'
  in_vhost "a.test" cat /proc/self/cgroup
  is "$status" 0
  like "$output" ":$(httpd_cgroup)/a\.test"$'(\n|$)'
}

@test "in-vhost enters the group of several vhosts, in a given tree" {
  requires cgroups
  start_httpd -v 'a VhostLimitGroup us' -v 'b VhostLimitGroup us' 'VhostLimit On'
  VHOSTLIMIT_TREE=$(httpd_cgroup) in_vhost @us cat /proc/self/cgroup
  is "$status" 0
  like "$output" ":$(httpd_cgroup)/_us"$'(\n|$)'
}

@test "in-vhost waits until the group exists" {
  requires cgroups
  mkdir -p "$HTTPD_ROOT"
  configure_httpd 'VhostLimit On'
  (VHOSTLIMIT_TREE=$(httpd_cgroup) "$IN_VHOST" "b.test" cat /proc/self/cgroup \
    >"$BATS_TEST_TMPDIR/out" 2>&1) 3>&- 4>&- &
  local waits=$!
  launch_httpd
  wait_until 20 gone "$waits"
  like "$(<"$BATS_TEST_TMPDIR/out")" ":$(httpd_cgroup)/b\.test"
}

need_systemd_analyze() { need_program systemd-analyze; }

@test "systemd accepts the units" {
  requires systemd_analyze
  local dir=$BATS_TEST_TMPDIR/units
  mkdir -p "$dir/apache2.service.d"
  printf '%s\n' '[Service]' 'Type=forking' 'ExecStart=/bin/true' >"$dir/apache2.service"
  cp "$TOP"/conf/systemd/*.conf "$dir/apache2.service.d"
  sed 's|/usr/local/sbin/in-vhost|/bin/true|' "$TOP/conf/systemd/vhostlimit-fpm@.service" >"$dir/vhostlimit-fpm@.service"
  try systemd-analyze verify --man=no --recursive-errors=no "$dir/apache2.service" "$dir/vhostlimit-fpm@.service"
  is "$status $(grep -cE "^$dir|vhostlimit-fpm@|apache2.service" <<<"$output")" '0 0' "complaints"
}

@test "in-vhost reports that a group does not exist, and runs the command" {
  requires cgroups
  start_httpd 'VhostLimit On'
  in_vhost unknown.test:1 echo runs
  is "$status" 0
  like "$output" "there is no group $(httpd_cgroup)/unknown.test:1: echo runs outside"
  is "${lines[-1]}" runs
}

# The pool of docs/guides/shared-hosting.md, for an existing user.
guide_pool() {
  awk '/^    \[global\]/ { on = 1 } on && !NF { exit } on { sub(/^    /, ""); print }' \
    "$TOP/docs/guides/shared-hosting.md" |
    sed -E "s,^(user|listen.owner) = .*,\1 = $(httpd_user),; s,^(group|listen.group) = .*,\1 = $(id -gn "$(httpd_user)"),
      s,^error_log = .*,error_log = $HTTPD_ROOT/fpm.log,; s,^listen = .*,listen = $HTTPD_ROOT/anna.sock,"
}

@test "the guide's pool, started by in-vhost, serves from its customer's group" {
  requires cgroups php_fpm mod_proxy_fcgi
  local handler='SetHandler "proxy:unix:'$HTTPD_ROOT'/anna.sock|fcgi://anna/"' fpm
  start_httpd 'VhostLimit On' -l proxy -l proxy_fcgi -v 'a VhostLimitGroup anna' -v 'b VhostLimitGroup anna' \
    -v 'a <FilesMatch "\.php$">' -v "a $handler" -v 'a </FilesMatch>'
  echo '<?php readfile("/proc/self/cgroup");' >"$HTTPD_ROOT/htdocs/a/group.php"
  guide_pool >"$HTTPD_ROOT/pool.conf"
  APACHE_PID_FILE=$HTTPD_ROOT/run/httpd.pid detached timeout $((60 * SLOWER)) "$IN_VHOST" @anna \
    "$(php_fpm_program | sed -n 1p)" --nodaemonize --fpm-config "$HTTPD_ROOT/pool.conf" >"$HTTPD_ROOT/fpm.out" 2>&1 &
  fpm=$!
  wait_until 10 test -S "$HTTPD_ROOT/anna.sock" || { cat "$HTTPD_ROOT/fpm.out"; return 1; }
  get a /group.php
  kill "$fpm"
  wait "$fpm" || :
  like "$(answer_body)" ":$(httpd_cgroup)/_anna"$'(\n|$)'
}
