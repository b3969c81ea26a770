#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The formats of the status page. All tests share a server.

load lib/live
export ONE_SERVER=yes

setup_file() {
  "$TOP/packaging/site-conf" logs <"$TOP/conf/vhostlimit.conf" | sed -n '/^<Location/,/^<\/Location/p' >"$BATS_FILE_TMPDIR/page.conf"
  start_httpd -l authz_host -x "Include \"$BATS_FILE_TMPDIR/page.conf\"" 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 2' -v 'b VhostLimit DryRun' \
    -v 'a <Location "/status">' -v 'a SetHandler vhostlimit-status' -v 'a </Location>' \
    -x "<VirtualHost 127.0.0.2:$(httpd_port)>" -x 'ServerName "<b>x&y\"z"' -x '</VirtualHost>'
}

teardown_file() { end_server; }

page() { get status "/vhostlimit$1"; }   # <query>

@test "the packages' page is for clients on this machine, and not for those of a proxy on it" {
  local header
  is "$(get c /vhostlimit-status)" 200
  for header in 'X-Forwarded-For: 192.0.2.1' 'X-Real-IP: 192.0.2.1' 'Forwarded: for=192.0.2.1' 'Via: 1.1 proxy'; do
    is "$(get c /vhostlimit-status -H "$header")" 403
  done
}

@test "?json is JSON with the documented keys" {
  is "$(page '?json')" 200
  like "$(answer_head Content-Type)" '^application/json'
  is "$(answer_body | jq -c 'keys')" '["cgroup","children","fleet","fleet_lapsed","held_us","module","mpm","now_us","processors","sampler","schema","slots","slots_auto","started_us","state","threads","unenforced","uptime_s","vhosts","workers"]'
  is "$(answer_body | jq -c '.cgroup | keys')" '["backend","outside","path","reason"]'
  is "$(answer_body | jq -c '.sampler | keys')" '["processes","round_us","state","unfound","unread"]'
  is "$(answer_body | jq -r '.schema')" 1
  like "$(answer_body | jq -r '.module')" '^mod_vhostlimit/[0-9]+\.[0-9]+\.[0-9]+$'
}

@test "?json: each account has all columns, and numbers are numbers" {
  local want='["asleep","backend_us","backends","busy_us","calls","cgroup","charged_us","classes","clients_waiting","concurrency","cost","cpu","cpu_minute_permille","cpu_now_permille","cpu_us","database_now_permille","database_us","database_waits","deferred","duty_permille","expires_s","fleet_concurrency","fleet_cpu_permille","fleet_weight_milli","gone","io","late","limited_s","memory","memory_kills","method","mode","name","overridden","plan","processes","queue","queued","refused","refused_concurrency","refused_queue","refused_timeout","requests","reset","runnable_permille","running","service_us","state","unenforced","virtual_hosts","wait_p50_us","wait_p99_us","wait_us","waiting","weight","would_queue","would_refuse"]'
  is "$(status_json | jq -c '[.vhosts[] | keys] | unique')" "[$want]"
  is "$(status_json | jq -c '[.vhosts[] | del(.name, .mode, .state, .method, .cost, .cgroup, .overridden, .expires_s, .plan, .unenforced, .virtual_hosts, .classes, .backends, .calls) | .[] | type] | unique')" '["number"]'
}

@test "?json: each site has its virtual hosts, with addresses and places in the configuration" {
  local line
  line=$(grep -n -m 1 -B 1 'ServerName a.test' "$HTTPD_ROOT/httpd.conf" | sed -n '1s/-.*//p')
  is "$(status_json | jq -c '.vhosts[] | select(.name == "a.test") | .virtual_hosts')" \
    "[{\"name\":\"a.test\",\"addresses\":\"127.0.0.1:$(httpd_port)\",\"place\":\"$HTTPD_ROOT/httpd.conf:$line\"}]"
  is "$(status_json | jq -c '.vhosts[] | select(.name == "main.test") | .virtual_hosts')" \
    '[{"name":"main.test","addresses":"","place":""}]'
}

@test "?json shows the configuration" {
  is "$(status_of a concurrency) $(status_of a mode) $(status_of b mode)" '2 on dryrun'
  is "$(status_json | jq -r '.children')" "$(httpd_children | wc -l)"
  is "$(status_json | jq -r '.mpm')" "${VL_MPM:-event}"
}

@test "?json and ?prometheus say whether the server is dormant or engaged" {
  page '?json'
  is "$(answer_body | jq -c '.state | keys')" '["changes","is","since_s","why"]'
  page '?prometheus'
  like "$(answer_body)" $'\nvhostlimit_engaged [01]\n.*\nvhostlimit_state_changes_total [0-9]+\n'
}

@test "?json and ?prometheus have the state of the sampler" {
  sampler_runs() { [[ $(status_json | jq -r .sampler.state) == runs ]]; }
  wait_until 10 sampler_runs
  page '?prometheus'
  like "$(answer_body)" $'\nvhostlimit_sampler\\{state="runs"\\} 1\n'
  like "$(answer_body)" $'\nvhostlimit_sampler_unfound 0\n'
}

@test "the default format is HTML, and it is complete" {
  is "$(page '')" 200
  like "$(answer_head Content-Type)" '^text/html'
  like "$(answer_body)" '<!DOCTYPE html>.*<noscript>.*</html>'
}

@test "HTML: the query is not part of the page" {
  page '?<script>alert(1)</script>'
  [[ $(answer_body) != *'<script>alert'* ]] || fail "the query is in the page"
}

@test "?json: server names are quoted" {
  is "$(status_json | jq -r '.vhosts[].name | select(contains("x&y"))')" '<b>x&y"z'
}

@test "responses forbid caching" {
  local query
  for query in '' '?json' '?prometheus'; do
    page "$query"
    like "$(answer_head Cache-Control)" 'no-(cache|store)' "Cache-Control of $query"
  done
}

@test "?prometheus: promtool accepts the text, and names are quoted once" {
  requires promtool
  is "$(page '?prometheus')" 200
  like "$(answer_head Content-Type)" '^text/plain; version=0\.0\.4'
  try promtool check metrics <"$BATS_TEST_TMPDIR/body"
  is "$status" 0
  get main / >/dev/null
  page '?prometheus'
  like "$(answer_body)" $'\nvhostlimit_requests_total\{vhost="<b>x&y\\\\"z"\} 1\n'
}

@test "?prometheus: the histogram has all requests, and its buckets do not decrease" {
  get a /page.html >/dev/null
  settles a running 0
  page '?prometheus'
  local waits
  waits=$(answer_body | sed -n 's/^vhostlimit_wait_seconds_\([a-z]*\){vhost="a\.test.* //p' | xargs)
  is "$(wc -w <<<"$waits")" 12 "nine steps, +Inf, sum and count"
  is "$(answer_body | sed -n 's/^vhostlimit_wait_seconds_bucket{vhost="a\.test.*"} //p' | sort -nc 2>&1)" '' "order"
  is "$(sed -n 's/^vhostlimit_wait_seconds_count{vhost="a\.test.*} //p' "$BATS_TEST_TMPDIR/body")" "$(status_of a requests)"
}

@test "?prometheus omits sites without requests" {
  page '?prometheus'
  [[ $(answer_body) != *'vhost="main.test'* ]] || fail "main.test is there"
  like "$(answer_body)" $'\nvhostlimit_vhosts 5\n'
}

@test "words of the query may be in any order, and only whole words count" {
  page '?x=json&json&refresh'
  like "$(answer_head Content-Type)" '^application/json'
  page '?jsonp'
  like "$(answer_head Content-Type)" '^text/html'
}

@test "HEAD and GET are allowed, other methods are not" {
  is "$(get status '/vhostlimit?json' -I)" 200
  like "$(get status '/vhostlimit?json' -d x)" '^40[45]$'
}

@test "the status request is counted as running in its vhost" {
  get a '/status?json'
  is "$(answer_body | jq '.vhosts[] | select(.name | startswith("a.test")) | .running')" 1
}

@test "the requests in the accounts add up to those of the clients" {
  local before after refused
  before=$(status_json | jq '[.vhosts[] | .requests + .refused] | add')
  refused=$(status_of a refused)
  hold_request one; hold_request two
  is "$(get a /) $(get b /) $(get c /) $(get main /)" '503 200 200 200'
  release_all
  settles a running 0
  after=$(status_json | jq '[.vhosts[] | .requests + .refused] | add')
  is $((after - before)) 6 "requests in all"
  is $(($(status_of a refused) - refused)) 1 "refused"
}

@test "busy time includes finished requests" {
  local before
  before=$(status_of c busy_us)
  hold_request one c
  release_request one
  settles c running 0
  at_least $(($(status_of c busy_us) - before)) 1000 "microseconds more"
}
