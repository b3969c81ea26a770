#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What docs/production.md tells administrators to write does what it says.

load lib/live

# The indented block that follows the first line with these words.
recipe() { # <words>
  awk -v words="$1" 'index($0, words) { found = 1; next }
    found && /^    / { print substr($0, 5); inside = 1; next }
    found && /^$/ { if (inside) print ""; next }
    inside { exit }' "$TOP/docs/production.md"
}

need_systemd_analyze() { need_program systemd-analyze; }

group_of() { printf '%s.test:%s\n' "$1" "$(httpd_port)"; }  # <vhost>

make_in_vhost() {
  recipe 'in-vhost`, mode 755' | sed "s|^tree=[^ ]*|tree=$(httpd_cgroup)|" >"$BATS_TEST_TMPDIR/in-vhost"
  chmod 755 "$BATS_TEST_TMPDIR/in-vhost"
  like "$(<"$BATS_TEST_TMPDIR/in-vhost")" "^#!/bin/sh.*$(httpd_cgroup)"
}

@test "in-vhost runs a program in its vhost's group, in each hierarchy" {
  requires cgroups
  start_httpd 'VhostLimit On' -v 'a VhostLimitMemory 64M'
  make_in_vhost
  try "$BATS_TEST_TMPDIR/in-vhost" "$(group_of a)" cat /proc/self/cgroup
  is "$status" 0
  is "$(grep -c ":$(httpd_cgroup)/$(group_of a)\$" <<<"$output")" "$(cgroup_dirs "$(httpd_cgroup)/$(group_of a)" | sort -u | wc -l)" \
    "hierarchies"
}

@test "in-vhost waits for a group that is not there yet" {
  requires cgroups
  mkdir -p "$HTTPD_ROOT"
  configure_httpd 'VhostLimit On'
  make_in_vhost
  ("$BATS_TEST_TMPDIR/in-vhost" "$(group_of b)" cat /proc/self/cgroup >"$BATS_TEST_TMPDIR/out" 2>&1) 3>&- 4>&- &
  local waits=$!
  launch_httpd
  wait_until 20 gone "$waits"
  like "$(<"$BATS_TEST_TMPDIR/out")" ":$(httpd_cgroup)/$(group_of b)"
}

@test "systemd takes the units as they are written" {
  requires systemd_analyze
  local dir=$BATS_TEST_TMPDIR/units
  mkdir -p "$dir/apache2.service.d"
  printf '%s\n' '[Service]' 'Type=forking' 'ExecStart=/bin/true' >"$dir/apache2.service"
  recipe 'systemctl edit apache2' >"$dir/apache2.service.d/override.conf"
  recipe 'php-fpm@.service`, for example' | sed 's|/usr/local/sbin/in-vhost|/bin/true|' >"$dir/php-fpm@.service"
  like "$(<"$dir/apache2.service.d/override.conf")" 'Delegate='
  like "$(<"$dir/php-fpm@.service")" 'PartOf=apache2.service'
  try systemd-analyze verify --man=no --recursive-errors=no "$dir/apache2.service" "$dir/php-fpm@.service"
  is "$status $(grep -cE "^$dir|php-fpm@|apache2.service" <<<"$output")" '0 0' "complaints"
}
