#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Modes On, Off and DryRun, inheritance by vhosts, and the variables in the access log.

load lib/live

logged() { wait_until 20 access_log_has "$1" "$2"; }           # <vhost> <regular expression>
access_log_has() { grep -Eq -- "$2" <<<"$(access_log "$1")"; }

@test "DryRun serves and counts requests that On would refuse" {
  start_httpd 'VhostLimit DryRun' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  hold_request one
  is "$(get a /) $(answer_head Retry-After)" '200 '
  is "$(status_of a would_refuse) $(status_of a refused) $(status_of a requests)" '1 0 2'
  is "$(status_of a mode)" dryrun
}

@test "DryRun counts requests as running that On would have refused" {
  start_httpd 'VhostLimit DryRun' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  hold_request one; hold_request two; hold_request three
  is "$(status_of a running) $(status_of a would_refuse)" '3 2'
}

@test "CGI programs have the scheduling policy of plain Apache, with On, DryRun and Off" {
  local vhost
  start_httpd 'VhostLimit On' -v 'b VhostLimit DryRun' -v 'c VhostLimit Off'
  for vhost in a b c; do
    is "$(get "$vhost" /cgi/policy.sh) $(answer_body)" '200 0' "SCHED_OTHER in $vhost"
  done
}

@test "Off counts nothing" {
  start_httpd 'VhostLimit On' 'VhostLimitConcurrency 1' -v 'b VhostLimit Off'
  hold_request one b; hold_request two b
  is "$(get b /)" 200
  try status_of b requests
  like "$output" '^(0)?$' "requests of a vhost that is Off"
}

@test "VhostLimit On in a vhost overrides Off at server level" {
  start_httpd 'VhostLimit Off' -v 'c VhostLimit On'
  is "$(get a /) $(get c /)" '200 200'
  settles c requests 1
  is "$(status_json | jq -r '[.vhosts[] | select(.mode != "off") | .name | sub(":.*"; "")] | join(" ")')" c.test
}

@test "vhosts inherit the server's limits and can override them" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' 'VhostLimitConcurrency 1' 'VhostLimitStatusCode 429' \
    'VhostLimitRetryAfter 5' -v 'b VhostLimitConcurrency 2' -v 'b VhostLimitStatusCode 508' \
    -v 'b VhostLimitRetryAfter 6' -v 'c VhostLimitConcurrency 0'
  hold_request one a; hold_request two b
  is "$(get a /) $(answer_head Retry-After)" '429 5'
  hold_request three b; hold_request four c; hold_request five c
  is "$(get b /) $(answer_head Retry-After)" '508 6'
  is "$(get c /)" 200
  is "$(status_of a concurrency) $(status_of b concurrency) $(status_of c concurrency)" '1 2 0'
}

@test "vhosts inherit the mode and can override it" {
  start_httpd 'VhostLimit DryRun' 'VhostLimitQueue 0' 'VhostLimitConcurrency 1' -v 'b VhostLimit On'
  hold_request one a; hold_request two b
  is "$(get a /) $(get b /)" '200 503'
  is "$(status_of a mode) $(status_of b mode)" 'dryrun on'
}

@test "the last of two lines with the same directive takes effect" {
  start_httpd 'VhostLimit On' 'VhostLimitConcurrency 7' 'VhostLimitConcurrency 9'
  is "$(status_of a concurrency)" 9
}

@test "the access log has the action and times of a request that passed" {
  start_httpd 'VhostLimit On'
  is "$(get a /page.html)" 200
  logged a '^GET /page\.html 200 action=pass reason=- wait=[0-9]+ cpu=[0-9]+$'
}

@test "the access log has the action and reason of a refusal" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  hold_request one
  is "$(get a /page.html)" 503
  logged a '^GET /page\.html 503 action=refused reason=concurrency wait=[0-9]+ '
}

@test "the access log has a refusal that an ErrorDocument answered" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1' -v 'a ErrorDocument 503 /sorry.html'
  hold_request one
  is "$(get a /page.html)" 503
  logged a '503 action=refused reason=concurrency '
}

@test "the access log has a request that passed through an internal redirect" {
  start_httpd 'VhostLimit On' -v 'a ErrorDocument 404 /page.html'
  is "$(get a /sub/) $(get a /nope)" '200 404'
  logged a '200 action=pass reason=- wait=[0-9]+ cpu=[0-9]+$'
  logged a '404 action=pass reason=- wait=[0-9]+ cpu=[0-9]+$'
}

@test "the access log has refusals that DryRun would have made, and no others" {
  start_httpd 'VhostLimit DryRun' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  hold_request one
  is "$(get a /page.html)" 200
  release_request one
  logged a '^GET /page\.html 200 action=dryrun reason=concurrency '
  logged a '^GET /cgi/hold\.sh 200 action=pass reason=- '
}

@test "the access log of a vhost with VhostLimit Off has no values of the module" {
  start_httpd 'VhostLimit Off'
  is "$(get a /page.html)" 200
  logged a '^GET /page\.html 200 action=- reason=- wait=- cpu=-$'
}

@test "request headers do not set the module's variables" {
  start_httpd 'VhostLimit On'
  is "$(get a /page.html -H 'VHOSTLIMIT_ACTION: refused' -H 'VHOSTLIMIT_REASON: me')" 200
  logged a 'action=pass reason=- '
}

@test "VHOSTLIMIT_BUSY is set for mod_rewrite, SetEnvIf and <If> while requests of the site wait" {
  requires event
  start_httpd "${ONE_CHILD[@]}" 'VhostLimit On' -l rewrite -l setenvif -l headers 'Header always set Busy "expr=%{reqenv:VHOSTLIMIT_BUSY}"' \
    -v 'a VhostLimitConcurrency 1' -v 'a RewriteEngine On' -v 'a RewriteCond %{ENV:VHOSTLIMIT_BUSY} .' \
    -v 'a RewriteRule ^/first.html /busy [R=302]' -v "a <Directory \"$HTTPD_ROOT/htdocs/a\">" \
    -v 'a SetEnvIf VHOSTLIMIT_BUSY ^2 two' -v 'a Header set Two yes env=two' -v "a <If \"-n reqenv('VHOSTLIMIT_BUSY')\">" -v 'a Header set If yes' \
    -v 'a </If>' -v 'a </Directory>'
  is "$(get a /page.html) $(answer_head Busy)" '200 '
  hold_request one
  line_up a /page.html /first.html /nope
  is "$(get b /page.html) $(answer_head Busy)" '200 ' "another site"
  release_request one
  is "$(answer_of pagehtml) $(head_of pagehtml Busy) $(head_of pagehtml Two) $(head_of pagehtml If)" '200 2 yes yes'
  is "$(answer_of firsthtml) $(head_of firsthtml Busy)" '302 1'
  is "$(answer_of nope) $(head_of nope Busy) $(head_of nope Two)" '404 0 '
  wait_until 10 not_busy
}
not_busy() { [[ $(get a /first.html) == 404 && -z $(answer_head Busy) ]]; }

@test "CPU time of the worker thread is in the access log and in the account" {
  requires mod_lua
  start_httpd 'VhostLimit On' -l lua -v "a LuaMapHandler /burn $HTTPD_ROOT/lua/burn.lua"
  is "$(get a /burn)" 200
  settles a running 0
  at_least "$(status_of a cpu_us)" 20000 "cpu_us of the account"
  at_least "$(status_of a busy_us)" "$(status_of a cpu_us)" "busy_us, not less than cpu_us"
  logged a '^GET /burn 200 action=pass reason=- wait=[0-9]+ cpu=[0-9]{5,}$'
}

@test "waiting for a script counts as busy time, not as CPU time" {
  start_httpd 'VhostLimit On'
  hold_request one
  wait_until 20 older_than_ms 300 "$HTTPD_ROOT/hold/one.in"
  release_request one
  settles a running 0
  at_least "$(status_of a busy_us)" 250000 "busy_us"
  at_most "$(status_of a cpu_us)" 200000 "cpu_us"
}
older_than_ms() { (( $(date +%s%3N) - $(date -r "$2" +%s%3N) > $1 )); }
