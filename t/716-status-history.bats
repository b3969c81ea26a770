#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The charts of the status page, from a history that the collector has written.

load lib/live
load lib/control
load lib/history
load lib/browser

history_path() { printf '%s/run/history\n' "$HTTPD_ROOT"; }

setup() { requires root ctl; }
teardown() { all_of end_browser end_collector end_server; }

# A server with some requests in its history.
start_with_history() {
  start_httpd 'VhostLimit On' "VhostLimitHistory run/history" -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 0' \
    -v 'b <Location "/own">' -v 'b SetHandler vhostlimit-status' -v 'b </Location>'
  begin_collector
  chgrp "$(id -gn "$(httpd_user)")" "$(history_path)"
  repeat 6 get c / >/dev/null
  hold_request one a
  is "$(get a /)" 503
  release_request one
  settles a running 0
  end_collector
}

page() { get status "/vhostlimit$1" >/dev/null; answer_body; }   # <query>

# The caption of a chart as text.
caption() { # <query> <title>
  page "$1" | sed -n "s|.*<figcaption><b>$2</b> \(.*\)</figcaption>.*|\1|p" | sed 's/<[^>]*>//g'
}

@test "the page has six charts of all sites, and a link to those of each site" {
  start_with_history
  local text
  text=$(page '')
  like "$text" '<section id="charts"><h2>All sites</h2>'
  is "$(grep -o '<figcaption><b>[^<]*' <<<"$text" | sed 's/.*>//' | xargs -d'\n')" 'Requests CPU Waiting Wait p99 Refused Gone'
  is "$(grep -c '<path d="M[0-9]* 500V[0-9]*h10V500Z"/>' <<<"$text")" 6 "one step with figures in each"
  like "$text" '<a href="\?site=a\.test">a\.test</a>'
  like "$(caption '' Refused)" '^[0-9.]+ /min highest [0-9.]+$'
  isnt "$(caption '' Refused)" '0 /min highest 0'
}

@test "a site has charts of its own, and no other site is on its page" {
  start_with_history
  local text
  text=$(page '?site=a.test')
  like "$text" '<h2>a\.test</h2>.*<a href="\?site=a\.test&#38;hours=1">1 h</a>.*<a href="\?">All sites</a>'
  unlike "$text" '[bc]\.test'
  isnt "$(caption '?site=a.test' Refused)" '0 /min highest 0'
  is "$(caption '?site=c.test' Refused)" '0 /min highest 0'
  isnt "$(caption '?site=C.Test&hours=1' Requests)" '0 /s highest 0'
  is "$(page '?site=a.test&json' | jq -c '[.vhosts[].name]')" '["a.test"]'
  is "$(get status '/vhostlimit?site=none.test')" 404
}

unlike() { [[ ! $1 =~ $2 ]] || fail "it has $2"; }  # <text> <regex>

@test "?me has the charts of its site, whatever site is named beside it" {
  start_with_history
  local query
  for query in 'me' 'me&site=a.test' 'site=a.test&me&hours=6'; do
    is "$(get b "/own?$query")" 200
    like "$(answer_body)" '<h2>b\.test</h2>'
    unlike "$(answer_body)" '[ac]\.test'
  done
  like "$(answer_body)" 'href="\?me&#38;hours=24"'
}

@test "without a history that it may read, the page is as it was" {
  start_with_history
  local text
  chmod 600 "$(history_path)"
  text=$(page '')
  like "$text" '<tr><td>a\.test<td'
  unlike "$text" 'id="charts"'
  chmod 640 "$(history_path)"
  like "$(page '')" 'id="charts"'
  printf 'other' | dd of="$(history_path)" conv=notrunc status=none
  unlike "$(page '')" 'id="charts"'
  rm "$(history_path)"
  unlike "$(page '')" 'id="charts"'
  mkfifo -m 644 "$(history_path)"
  unlike "$(page '')" 'id="charts"'
}

@test "VhostLimitHistory off, and in the wrong place" {
  start_with_history
  configure_httpd 'VhostLimit On' 'VhostLimitHistory off'
  graceful_httpd
  unlike "$(page '')" 'id="charts"'
  check_config -v 'a VhostLimitHistory off'
  is "$status" 1
  like "$output" 'VhostLimitHistory'
}

@test "in a browser: light and dark, as wide as a phone, refreshed with the page, and no complaint" {
  requires chromium
  start_with_history
  start_browser
  open_page "http://status.test:$(httpd_port)/vhostlimit?site=a.test#every=0"
  is "$(in_page 'document.querySelectorAll("#charts svg path").length')" 6
  local light
  light=$(in_page 'getComputedStyle(document.querySelector("#charts path")).fill')
  browser Emulation.setEmulatedMedia '{"features":[{"name":"prefers-color-scheme","value":"dark"}]}' >/dev/null
  isnt "$(in_page 'getComputedStyle(document.querySelector("#charts path")).fill')" "$light" "color in the dark"
  browser Emulation.setDeviceMetricsOverride '{"width":360,"height":740,"deviceScaleFactor":1,"mobile":true}' >/dev/null
  is "$(in_page 'Array.from(document.querySelectorAll("#charts figure")).filter(f => f.getBoundingClientRect().right > 360).length')" 0 "charts beyond the edge"
  at_least "$(in_page 'Math.round(document.querySelector("#charts svg").getBoundingClientRect().width)')" 140 "pixels"
  in_page 'document.querySelector("#charts").remove()' >/dev/null
  click_on '#refresh'
  shown_again() { [[ $(in_page 'document.querySelectorAll("#charts svg path").length') == 6 ]]; }
  wait_until 10 shown_again
  screenshot "${VL_SCREENSHOT:-$BATS_TEST_TMPDIR/charts.png}"
  is "$(browser_complaints)" '' "complaints of the browser"
}
