#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Values of the status page: states, causes, CPU time, and ?me.
# All tests share a server.

load lib/live
export ONE_SERVER=yes

setup_file() {
  start_httpd -l lua 'VhostLimit On' -v "a LuaMapHandler /burn $HTTPD_ROOT/lua/burn.lua" -v 'a VhostLimitConcurrency 2' -v 'a VhostLimitQueue 2 1s' \
    -v 'b VhostLimitQueue 0' -v 'b VhostLimitConcurrency 1' -v 'c VhostLimit DryRun' -v 'c ServerAlias "<i>alias</i>"' \
    -v 'b <Location "/own">' -v 'b SetHandler vhostlimit-status' -v 'b </Location>'
}

teardown_file() { end_server; }

page() { get status "/vhostlimit$1"; }   # <query>

@test "the state of a vhost follows its requests" {
  is "$(status_of a state)" idle
  hold_request one
  is "$(status_of a state)" running
  hold_request two
  is "$(status_of a state)" capped
  release_all
  settles a state idle
}

@test "the method of a vhost depends on its mode and its queue" {
  is "$(status_of a method) $(status_of b method) $(status_of c method)" 'socket none none'
}

@test "refusals are counted by reason, and the sum is all of them" {
  requires event
  hold_request one; hold_request two
  hold_request three b
  get b / >/dev/null
  begin_request w1 a /page.html
  begin_request w2 a /page.html
  settles a waiting 2
  is "$(get a /)" 503
  is "$(answer_of w1) $(answer_of w2)" '503 503' "after a second"
  is "$(status_of a refused) $(status_of a refused_queue) $(status_of a refused_timeout) $(status_of a refused_concurrency)" '3 1 2 0'
  is "$(status_of b refused) $(status_of b refused_concurrency)" '1 1'
}

@test "CPU time of a finished request is in the rates of its vhost only" {
  requires mod_lua
  settles a running 0
  is "$(repeat 4 get a /burn | sort -u)" 200   # 50 ms of CPU time each, 3 permille of a minute
  settles a running 0
  wait_until 20 status_at_least a cpu_us 120000   # the pages count the time of all threads
  at_least "$(status_of a charged_us)" "$(status_of a cpu_us)" "charged"
  at_least "$(status_of a cpu_minute_permille)" 2 "permille over a minute"
  at_most "$(status_of a cpu_minute_permille)" $((1000 * $(nproc))) "permille"
  is "$(status_of c cpu_minute_permille)" 0
}

@test "?me shows the vhost of the request only, in each format" {
  local query
  for query in 'me&json' 'me&prometheus'; do
    is "$(get b "/own?$query")" 200
    like "$(answer_body)" 'b\.test'
    [[ $(answer_body) != *[ac].test* ]] || fail "?$query shows others"
  done
  get b '/own?me&json'
  is "$(answer_body | jq '.vhosts | length')" 1
  page '?me&json'
  is "$(answer_body | jq '.vhosts | length')" 0 "status.test takes no part"
}

@test "the page's policy allows only its own script and style, with a new nonce each time" {
  page ''
  local policy
  policy=$(answer_head Content-Security-Policy)
  like "$policy" "default-src 'none'"
  [[ $policy != *unsafe* ]] || fail "$policy"
  local nonce=${policy#*nonce-}
  nonce=${nonce%%\'*}
  like "$nonce" '^[0-9a-f]{32}$'
  is "$(answer_body | grep -oE '<(script|style)[^>]*>' | xargs -d'\n')" "<style nonce=\"$nonce\"> <script nonce=\"$nonce\">"
  is "$(answer_body | grep -cE ' (style|on[a-z]+)=')" 0 "inline styles and handlers"
  is "$(answer_body | grep -oE '(src|href)="[^"]*"' | grep -vE '"(data:,|\?[a-z]+)"')" '' "what it loads or leads to"
  page ''
  [[ $(answer_head Content-Security-Policy) != *"$nonce"* ]] || fail "the same number again"
}

