#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The status page with three thousand sites in Chromium: as wide as a phone and as a
# desk, light and dark.
#
#   VL_SCREENSHOTS=FOLDER bats t/718-status-phone.bats   # keeps a picture of each
# needs: fonts

load lib/live
load lib/browser
export ONE_SERVER=yes

vhosts=3000

# One server and one browser for all tests, because a page of so many sites takes seconds.
setup_file() {
  # shellcheck disable=SC2034  # the helpers read it
  local BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR
  meets chromium || return 0
  shop_vhosts "$vhosts" >"$BATS_FILE_TMPDIR/many.conf"
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off' -v 'a VhostLimitConcurrency 1' \
    -x "Include \"$BATS_FILE_TMPDIR/many.conf\""
  start_browser
  open_page "$(page_of '#every=0')"
}

setup() { requires chromium; }
teardown_file() { all_of end_browser end_server; }

# Instead of that in lib/httpd.bash: so many sites are too much text for the shell.
no_request_runs() { no_request_runs_in_thousands; }

page_of() { printf 'http://status.test:%s/vhostlimit%s\n' "$(httpd_port)" "$1"; }    # <query>

# Shows all sites of the page again.
on_desk() {
  browser Emulation.clearDeviceMetricsOverride >/dev/null
  find_sites ''
}

on_phone() { # <pixels>
  as_wide_as "$1"
  find_sites ''
}

as_wide_as() { # <pixels>
  browser Emulation.setDeviceMetricsOverride "{\"width\":$1,\"height\":844,\"deviceScaleFactor\":2,\"mobile\":true}" >/dev/null
}

find_sites() { # <text>
  in_page "(f => { f.value = '$1'; f.dispatchEvent(new Event('input')); scrollTo(0, 0) })(document.getElementById('find'))" >/dev/null
}

in_colors() { # light or dark
  browser Emulation.setEmulatedMedia "{\"features\":[{\"name\":\"prefers-color-scheme\",\"value\":\"$1\"}]}" >/dev/null
}

# The page is not wider than the window, and no element that does not scroll by itself is.
fits() { # <pixels>
  is "$(in_page 'document.documentElement.scrollWidth')" "$1" "width of the page"
  is "$(in_page "Array.from(document.querySelectorAll('body *')).filter(e => !e.closest('.scroll') && e.getBoundingClientRect().right > $1).map(e => e.tagName + e.id).join(' ')")" '' "elements beyond the edge"
}

@test "a phone shows thousands of sites: nothing is beyond the edge, light and dark" {
  local colors
  on_phone 390
  for colors in light dark; do
    in_colors "$colors"
    fits 390
    picture "phone-$colors"
  done
  like "$(in_page 'document.getElementById("count").textContent')" '^3004 sites$'
  in_page 'document.getElementById("tools").scrollIntoView()' >/dev/null
  picture phone-table
  is "$(browser_complaints)" '' "complaints of the browser"
}

@test "on a phone a site is found among thousands, and its name stays in sight" {
  on_phone 390
  click_on '#find'
  type_text 'shop2999.'
  is "$(in_page 'document.getElementById("count").textContent')" '1 of 3004 sites'
  is "$(in_page 'document.querySelectorAll("#vhosts tbody tr").length')" 1
  in_page 'document.querySelector(".scroll").scrollLeft = 400' >/dev/null
  at_least "$(in_page 'Math.round(document.querySelector("#vhosts tbody td").getBoundingClientRect().left)')" 0 "the left edge of the name"
  at_most "$(in_page 'Math.round(document.querySelector("#vhosts tbody td").getBoundingClientRect().right)')" 240 "the right edge of the name"
  is "$(in_page 'document.querySelector("#vhosts th").getBoundingClientRect().left === document.querySelector("#vhosts tbody td").getBoundingClientRect().left')" true "the heading is above the names"
  fits 390
  picture phone-found
}

@test "a search and a sort of thousands of sites in the browser take a few seconds at most" {
  on_desk
  local ms
  ms=$(in_page '(() => { const t = performance.now(), f = document.getElementById("find"); f.value = "shop77"; f.dispatchEvent(new Event("input"));
    document.body.offsetHeight; return Math.round(performance.now() - t) })()')
  is "$(in_page 'document.getElementById("count").textContent')" '11 of 3004 sites'
  echo "# search: $ms ms" >&3
  at_most "$ms" $((5000 * SLOWER)) "ms"
  ms=$(in_page '(() => { const t = performance.now(); document.querySelector("th[data-key=vhost] button").click();
    document.body.offsetHeight; return Math.round(performance.now() - t) })()')
  echo "# sort: $ms ms" >&3
  at_most "$ms" $((5000 * SLOWER)) "ms"
  is "$(browser_complaints)" ''
}

@test "a desk: the table, light and dark" {
  local colors
  on_desk
  for colors in light dark; do
    in_colors "$colors"
    fits "$(in_page 'document.documentElement.clientWidth')"
    picture "desk-$colors"
  done
  is "$(browser_complaints)" ''
}
