#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Ten thousand requests of all kinds at once, a graceful restart in the middle:
# afterwards every count is right and nobody runs.

load lib/live

# Well-behaved clients: 2860 requests for each bulk.
keep_alive()  { ab -q -r -k -n 2200 -c 8 -H "Host: a.test" "http://127.0.0.1:$(httpd_port)$1" >/dev/null; }
pipelined()   { repeat 10 pipeline a 50 / /page.html /nope >/dev/null; }
heads()       { web -I -o /dev/null "$(url a '/page.html?[1-80]')"; }
posts()       { web -d body -o /dev/null "$(url a '/cgi/echo.sh?[1-40]')"; }
redirected()  { web -o /dev/null "$(url a '/cgi/redirect.sh?[1-40]')"; }
bulk()        { keep_alive /page.html; pipelined; heads; posts; redirected; }

# Rude ones: how many of theirs get through is theirs to say.
rude()        { repeat 60 abort_request b /big.bin; }

ten_thousand_on() { # <mpm>
  start_httpd -m "$1" 'VhostLimit On' -v 'a ErrorDocument 404 /page.html'
  bulk
  in_background rude bulk bulk
  wait_until 30 status_at_least a requests 4000
  graceful_httpd
  bulk
  wait
  settles a running 0
  settles b running 0
  is "$(status_of a refused)" 0
  at_least "$(status_of a requests)" 10000 "requests (the restart may cost clients some of 11440)"
  wait_until 5 logged_as_often_as_counted a
  is "$(status_of b requests)" 60 "aborted requests"
}

logged_as_often_as_counted() { is "$(access_log "$1" | wc -l)" "$(status_of "$1" requests)" "lines in the log"; }

in_background() { # <command>...
  local c
  for c; do "$c" 3>&- 4>&- & done
}

status_at_least() { (($(status_of "$1" "$2") >= $3)); }

@test "event: the running count is 0 after ten thousand requests of all kinds" {
  requires event ab
  ten_thousand_on event
}

@test "worker: the running count is 0 after ten thousand requests of all kinds" {
  requires worker ab
  ten_thousand_on worker
}

@test "prefork: the running count is 0 after ten thousand requests of all kinds" {
  requires prefork ab
  ten_thousand_on prefork
}
