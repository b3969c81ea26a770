#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The status page in Chromium: sorting, searching, refreshing, and no error on the console.

load lib/live
load lib/browser

export ONE_SERVER=yes

# One browser and one server for all tests.
setup_file() {
  meets chromium || return 0
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off' -v 'c VhostLimit DryRun' -x "$(shop_vhosts 300)" \
    -x "<VirtualHost 127.0.0.2:$(httpd_port)>" -x "ServerName \"<img src=x onerror=document.title='broken'>\"" -x '</VirtualHost>'
  start_browser
}

teardown_file() { all_of end_browser end_server; }

setup() { requires chromium; }

teardown() { all_of close_page look_for_leftovers; }

# Opens the page and waits until its table is there.
look_at() { # <fragment>
  open_page "http://status.test:$(httpd_port)/vhostlimit#$1"
  wait_until 20 has_rows
}
has_rows() { (($(rows_shown) > 0)); }

# Prints a column of the first rows.
cells() { # <key> <number>
  in_page "(n => Array.from(document.querySelectorAll('#vhosts tbody tr')).slice(0, $2)
    .map(tr => tr.cells[n].textContent).join(' '))(Array.from(document.querySelectorAll('#vhosts th'))
    .findIndex(th => th.dataset.key === '$1'))"
}

rows_shown() { in_page 'document.querySelectorAll("#vhosts tbody tr").length'; }
count_says() { in_page 'document.getElementById("count").textContent'; }
shows()      { [[ $(cells "$1" 1) == "$2" ]]; }   # <key> <first cell>

@test "a click on a heading sorts in descending order, a second click reverses it" {
  look_at 'every=0'
  get b / >/dev/null
  get b / >/dev/null
  get c / >/dev/null
  settles c running 0
  click_on '#refresh'
  click_on 'th[data-key=requests] button'
  wait_until 20 shows requests 2
  like "$(cells vhost 2)" '^b\.test c\.test$'
  is "$(cells requests 3)" '2 1 '
  click_on 'th[data-key=vhost] button'
  like "$(cells vhost 2)" '^<img .*> a\.test$' "names from a to z"
  click_on 'th[data-key=vhost] button'
  like "$(cells vhost 1)" '^shop99\.example'
  is "$(in_page 'document.querySelector("th[aria-sort]").getAttribute("aria-sort")')" descending
  is "$(browser_complaints)" '' "complaints of the browser"
}

@test "typing filters the table and is kept in the URL" {
  look_at 'every=0'
  is "$(rows_shown)" 200
  is "$(count_says)" '305 sites'
  click_on '#find'
  type_text 'SHOP12'
  is "$(count_says)" '11 of 305 sites'
  is "$(rows_shown)" 11
  like "$(in_page 'location.hash')" 'find=SHOP12'
  type_text ' unknown'
  is "$(rows_shown)" 0
  is "$(browser_complaints)" ''
}

@test "a URL with a view shows that view, and a button shows all rows" {
  look_at 'every=0&find=shop&sort=-vhost'
  is "$(cells vhost 1 | sed 's/:.*//')" shop99.example
  is "$(count_says)" '300 of 305 sites'
  is "$(rows_shown)" 200
  click_on '#more'
  is "$(rows_shown)" 300
}

@test "the page refreshes itself, keeps its view, and violates no policy" {
  look_at 'every=2&sort=-running'
  hold_request one b
  wait_until 15 shows running 1
  like "$(cells vhost 1)" '^b\.test'
  like "$(in_page 'document.getElementById("tiles").textContent')" 'Running1'
  release_request one
  wait_until 15 shows running ''
  is "$(in_page document.title)" vhostlimit "what a server name wanted to change"
  is "$(browser_complaints)" ''
}

@test "a failed refresh shows an error and keeps the table" {
  look_at 'every=0'
  stop_httpd
  click_on '#refresh'
  told() { [[ $(in_page 'document.getElementById("trouble").textContent') == 'Not refreshed: '* ]]; }
  wait_until 10 told
  is "$(rows_shown)" 200
  launch_httpd
  click_on '#refresh'
  wait_until 10 not told
}
not() { ! "$@"; }

@test "the page follows the light or dark preference of the browser" {
  look_at 'every=0'
  local light dark
  light=$(in_page 'getComputedStyle(document.body).backgroundColor')
  browser Emulation.setEmulatedMedia '{"features":[{"name":"prefers-color-scheme","value":"dark"}]}' >/dev/null
  dark=$(in_page 'getComputedStyle(document.body).backgroundColor')
  isnt "$dark" "$light" "background"
  screenshot "$BATS_TEST_TMPDIR/dark.png"
  at_least "$(stat -c %s "$BATS_TEST_TMPDIR/dark.png")" 10000 "bytes of screenshot"
}
