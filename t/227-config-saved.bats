#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Limits of a site outside of its virtual hosts: <VhostLimitSite> and VhostLimitSaveFile.

load lib/live
load lib/control

setup() { mkdir -p "$HTTPD_ROOT"; }

section() { printf '<VhostLimitSite %s>\n' "$1"; printf '%s\n' "${@:2}" '</VhostLimitSite>'; }  # <name> <line>...

limits_of() { control_of "$1" 'plan, (.vhosts[0] | .weight, .concurrency)' | xargs; }  # <vhost>

@test "limits in <VhostLimitSite> override those of the virtual hosts, and add up with them" {
  requires root ctl
  start_httpd 'VhostLimit On' "$(section A.test 'VhostLimitWeight 300')" -v 'a VhostLimitWeight 20' -v 'a VhostLimitConcurrency 9' \
    -x "$(section b.test 'VhostLimitConcurrency 4' 'VhostLimitPlan gold')" -x "$(section b.test 'VhostLimitWeight 5')" \
    -x $'<VhostLimitPlan gold>\nVhostLimitConcurrency 50\nVhostLimitWeight 60\n</VhostLimitPlan>' -v 'b VhostLimitPlan none'
  is "$(limits_of a)" '300 9'
  is "$(limits_of b)" 'gold 5 4'
  is "$(limits_of c)" '100 0'
}

@test "a section may join its site to a group, and a group may have a section" {
  requires root ctl
  start_httpd 'VhostLimit On' "$(section a.test 'VhostLimitGroup g')" "$(section b.test 'VhostLimitGroup g')" "$(section @g 'VhostLimitWeight 44')"
  is "$(ask 'status\t@g\n' | jq -c '.vhosts[0] | [.weight, (.virtual_hosts | length)]')" '[44,2]'
}

@test "two sections of a site with different values stop the start, and the message names both lines" {
  check_config 'VhostLimit On' "$(section a.test 'VhostLimitWeight 300')" "$(section a.test 'VhostLimitWeight 400')"
  isnt "$status" 0
  like "$output" 'VL0015: site a\.test: VhostLimitWeight is 300 in .*httpd\.conf:[0-9]+ and 400 in .*httpd\.conf:[0-9]+\.'
  check_config 'VhostLimit On' "$(section a.test 'VhostLimitWeight 300')" "$(section a.test 'VhostLimitWeight 300')"
  is "$status" 0
}

@test "a section of an unknown site is a warning, and the server starts" {
  check_config 'VhostLimit On' "$(section gone.test 'VhostLimitWeight 300')"
  is "$status" 0
  like "$output" 'VL0063: <VhostLimitSite gone\.test> in .*httpd\.conf:[0-9]+: there is no such site'
  LOG_MAY_SAY=VL0063 start_httpd 'VhostLimit On' "$(section gone.test 'VhostLimitWeight 300')"
  is "$(grep -c VL0063 "$HTTPD_ROOT/logs/error.log")" 1 "warnings in the error log"
}

@test "a directive that does not belong into a section stops the start" {
  local line
  for line in 'VhostLimit On' 'VhostLimitExempt true' 'ServerSignature Off' 'VhostLimitSlots 5'; do
    check_config "$(section a.test "$line")"
    isnt "$status" 0 "$line"
    like "$output" "${line%% *} does not belong into VhostLimitSite"
  done
  check_config "$(section a.test 'VhostLimitPlan none-such')"
  like "$output" 'VL0060: VhostLimitPlan none-such in .*httpd\.conf:[0-9]+'
  check_config "$(section '"a b" c')"
  like "$output" "'a b c' is not the name of one site"
  check_config -v "a $(section a.test)"
  like "$output" 'VhostLimitSite> cannot occur within <VirtualHost>'
}

@test "VhostLimitSaveFile includes its file if it exists" {
  requires root ctl
  start_httpd 'VhostLimit On' 'VhostLimitSaveFile saved.conf'
  is "$(limits_of a)" '100 0'
  section a.test 'VhostLimitWeight 300' >"$HTTPD_ROOT/saved.conf"
  graceful_httpd
  is "$(limits_of a)" '300 0'
  is "$(ask 'savefile\n' | jq -r .save_file)" "$HTTPD_ROOT/saved.conf"
  printf '%s\n' 'VhostLimitWieght 4' >>"$HTTPD_ROOT/saved.conf"
  try "$(httpd_program)" -t -f "$HTTPD_ROOT/httpd.conf"
  like "$status $output" '^1 .*Syntax error on line 4 of .*/saved\.conf'
  check_config 'VhostLimitSaveFile one.conf' 'VhostLimitSaveFile two.conf'
  like "$status $output" '^1 .*VhostLimitSaveFile: there is one file, and it is .*/one\.conf'
}
