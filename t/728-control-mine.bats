#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# VhostLimitOwner and vhostlimitctl mine: a site's owner, without root.

load lib/live
load lib/control
load lib/sandbox
export ONE_SERVER=yes
# Not below /tmp, which programs in Files may read.
HTTPD_ROOT=/run/vl-mine
ALICE=61234 BOB=61235

setup() { requires root ctl landlock; }

# Alice owns a and e, Bob owns b, and Apache's user owns c. Site d of Alice has no VhostLimitOwner.
setup_file() {
  { need_root && need_ctl && need_landlock; } >/dev/null || return 0
  start_httpd 'VhostLimit On' 'VhostLimitOwner Show' "$PROGRAMS" -o 'a b c d e' -v 'a VhostLimitSandbox Files' \
    -v 'a VhostLimitOwner Sandbox' -v 'a VhostLimitConcurrency 20' -v 'd VhostLimitOwner Off' -v 'e VhostLimitConcurrency 30'
  chmod a+x "$HTTPD_ROOT" "$HTTPD_ROOT/run"
  chown "$ALICE" "$HTTPD_ROOT"/htdocs/{a,d,e}
  chown "$BOB" "$HTTPD_ROOT/htdocs/b"
  chown "$(httpd_user)" "$HTTPD_ROOT/htdocs/c"
  site_program a look.sh <<<"cat '$HTTPD_ROOT/htdocs/b/index.html' 2>/dev/null || echo no"
  graceful_httpd
}

teardown_file() {
  [[ ! -e $HTTPD_ROOT ]] || { end_server && rm -rf "$HTTPD_ROOT"; }
}

as() { setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"; }  # <uid> <command>...
mine() { try as "$1" "$CTL" -s "$(control_socket)" "${@:2}"; }      # <uid> <argument>...
asks() { as "$1" bash -c "$(declare -f control_perl control_socket ask); HTTPD_ROOT=$HTTPD_ROOT ask '$2'" 2>&1 || :; }  # <uid> <text>

@test "an owner sees the own sites, and no other" {
  mine "$ALICE" --json mine
  is "$(jq -r '.mine[].vhost' <<<"$output" | xargs)" 'a.test e.test'
  is "$(jq -r '.mine[0] | .sandbox, .may_switch, .status.vhosts[0].concurrency' <<<"$output" | xargs)" 'files true 20'
  like "$(jq -r '.mine[0].sentences[0]' <<<"$output")" 'running'
  mine "$BOB" mine
  is "$status" 0
  like "$output" '^b\.test:'
  [[ $output != *a.test* ]]
}

@test "the text has usage, limits, the reason and the sandbox, and no command of root" {
  hold_request one e
  mine "$ALICE" mine
  like "$output" $'e\\.test:\n  CPU .*, no limit\n  running      1, limit 30\n  waiting      0, limit 1000\n  requests .*\n  sandbox      off\n1 request is running'
  like "$output" 'sandbox      files \(switch it'
  like "$output" 'Nothing limits the site'
  [[ $output != *Next:* ]]
  release_request one
}

@test "other commands, and Apache's user, get no answer" {
  local text
  for text in 'status\n' 'status\ta.test\n' 'set\ta.test\tweight=7\n' 'clients\ta.test\n' 'sandbox\ta.test\n' 'bulk\t5\nset\ta' 'figures\n' '\n'; do
    is "$(asks "$ALICE" "$text")" '' "$text"
  done
  is "$(control_of a weight)" 100
  is "$(asks "$(id -u "$(httpd_user)")" 'mine\n')" '' "Apache's user"
  mine "$ALICE" top
  is "$status" 77
  mine 61236 mine
  is "$status" 1
  like "$output" 'no site with VhostLimitOwner'
}

@test "the sandbox is switched by the owner alone, where the administrator allows it" {
  is "$(run_program a look.sh)" no
  mine "$BOB" mine a.test sandbox=off
  is "$status" 1
  like "$output" "you own no site 'a.test'"
  is "$(run_program a look.sh)" no "after another user has tried"
  mine "$ALICE" mine e.test sandbox=off
  like "$output" 'the administrator has not left the sandbox of site e.test'
  mine "$ALICE" mine d.test sandbox=off
  like "$output" "you own no site 'd.test'"
  mine "$ALICE" mine a.test sandbox=off
  is "$status" 0
  like "$output" 'sandbox      off, switched off by the owner'
  is "$(run_program a look.sh)" 'index of b'
  graceful_httpd
  is "$(run_program a look.sh)" 'index of b' "after a graceful restart"
  mine "$ALICE" mine a.test sandbox=on
  is "$(run_program a look.sh)" no
  error_log_has "VL0082: .*a\\.test: its owner \\(user $ALICE\\) has switched its sandbox on"
  mine "$ALICE" mine a.test
  is "$status" 2
}

@test "connections of owners leave root places" {
  local pids=() _
  for _ in {1..12}; do
    as "$ALICE" bash -c "$(declare -f control_perl control_socket ask_half); HTTPD_ROOT=$HTTPD_ROOT ask_half ''" >/dev/null 3>&- &
    pids+=($!)
  done
  is "$(control_of a weight)" 100
  wait "${pids[@]}"
}

@test "without VhostLimitOwner only root may connect" {
  sed -i '/VhostLimitOwner/d' "$HTTPD_ROOT/httpd.conf"
  graceful_httpd
  is "$(stat -c %a "$(control_socket)")" 600
  mine "$ALICE" mine
  is "$status" 77
  like "$output" 'Permission denied.*VhostLimitOwner'
}
