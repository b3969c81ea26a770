#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The commands of docs/guides/symptoms, as they are written there, on an Apache without the module:
# they name the busy site.

load lib/live

SYMPTOMS=$TOP/docs/guides/symptoms

# Prints the n-th command of a page: an indented line, and those that are indented further.
command_of() { # <page> <number>
  awk -v want="$2" '/^    [^ ]/ { inside = /^    (curl|awk|grep) / && ++n == want } !/^    / { inside = 0 } inside' "$SYMPTOMS/$1.md"
}

# Runs a command of a page against this server, with an awk of the machine.
run_command() { # <page> <number> <awk>
  local text
  text=$(command_of "$1" "$2" | sed "s,127.0.0.1/,127.0.0.1:$(httpd_port)/,g; s,/var/log/apache2/,$HTTPD_ROOT/logs/,g; s/\(shop\|wiki\)\.example/b.test/g")
  [[ -n $text ]] || fail "$1: no command $2"
  mkdir -p "$BATS_TEST_TMPDIR/$3"
  ln -sf "$(type -P "$3")" "$BATS_TEST_TMPDIR/$3/awk"
  PATH=$BATS_TEST_TMPDIR/$3:$PATH try bash -c "$text"
}

# What the first line of a command says.
names() { # <page> <number> <regex>
  local awk
  for awk in gawk mawk; do
    type -P "$awk" >/dev/null || continue
    run_command "$1" "$2" "$awk"
    like "${output%%$'\n'*}" "$3" "$1, command $2, $awk"
  done
}

start_with_guide() { # <mpm>
  awk '/^```/ { inside = !inside && $0 == "```apache"; next } inside' "$SYMPTOMS/index.md" |
    sed "s,/var/log/apache2/,$HTTPD_ROOT/logs/," >"$BATS_TEST_TMPDIR/guide.conf"
  start_httpd -n -m "$1" -l status -l authz_host -x "Include \"$BATS_TEST_TMPDIR/guide.conf\"" \
    -v 'b Redirect 503 /busy' -v 'b Redirect 508 /limit'
}

# Running requests, and more kept connections and half requests, which are no running ones.
hold_three() {
  clients=()
  hold_request one b; hold_request two b; hold_request three c
  for _ in 1 2 3; do
    exec_packets 'GET / HTTP/1.1\r\nHost: c.test\r\n\r\n' @until:200 @60000 >/dev/null 3>&- 4>&- &
    clients+=($!)
    exec_packets 'GE' @60000 >/dev/null 3>&- 4>&- &
    clients+=($!)
  done
  wait_until 10 sent_all
}
sent_all() { (($(grep -c '^c' "$HTTPD_ROOT/logs/sites.log") == 3)); }

# shellcheck disable=SC2030  # run_command sets output
@test "the status page's commands name the site with most running requests, on each MPM" {
  requires mod_status mod_authz_host
  on_each_mpm names_busy
}
names_busy() { # <mpm>
  start_with_guide "$1"
  hold_three
  names index 1 '^2 b\.test'
  names ah00484-server-reached-maxrequestworkers 1 '^2 b\.test'
  names apache-hangs-cpu-idle 1 '^[0-9]+ [bc]\.test:[0-9]+ GET /cgi/hold\.sh\?'
  graceful_httpd
  kill "${clients[@]}" 2>/dev/null || :
  wait_until 10 only_old_requests       # idle threads of old children end
  names scoreboard-is-full 1 '^[12] [bc]\.test:[0-9]+ in process [0-9]+$'
}
only_old_requests() {
  run_command scoreboard-is-full 1 awk
  # shellcheck disable=SC2031  # run_command sets it
  [[ $(awk '{ n[$2] += $1 } END { for (v in n) print n[v], v }' <<<"$output" | sort) == $'1 c.test:'*$'\n2 b.test:'* ]]
}

@test "the log's commands name the site, its paths, its clients and its refusals" {
  requires mod_status mod_authz_host
  start_with_guide event
  hold_three
  kill "${clients[@]}" 2>/dev/null || :
  release_all
  get b '/busy?1' >/dev/null; get b '/limit?2' >/dev/null
  get b /wp-login.php -X POST -A 'a "quoted" bot' >/dev/null
  wait_until 10 logged_all
  names index 2 '^[0-9]+ s  [0-9]+ requests  [bc]\.test'
  names one-site-slows-down-all-sites 1 '^[0-9]+ s  [0-9]+ requests  [bc]\.test'
  names 503-service-unavailable-under-load 1 '^1 b\.test'
  names 508-resource-limit-is-reached 1 '^1 b\.test'
  names 508-resource-limit-is-reached 2 '^[0-9]+ s  2  /cgi/hold\.sh$'
  names bots-take-down-my-server 1 'requests  curl/'
  like "$output" '1 requests  a \\"quoted\\" bot'
  names bots-take-down-my-server 2 '^[0-9]+ 127\.0\.0\.1$'
  names bots-take-down-my-server 3 '^[0-9]+ 127\.0$'
  names wp-login-xmlrpc-flood 1 '^1 b\.test 127\.0\.0\.1$'
}
logged_all() { (($(grep -c . "$HTTPD_ROOT/logs/sites.log") >= 9)); }
