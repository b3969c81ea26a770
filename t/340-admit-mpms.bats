#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Counting and the concurrency limit on each MPM.

load lib/live

requests_of_all_kinds() { # sends 20 requests of all kinds to a
  web -o /dev/null "$(url a '/page.html?[1-5]')"
  pipeline a 5 / /nope
  get a /nope
  get a /page.html -I
  get a /cgi/echo.sh -d body
  get a /cgi/redirect.sh
  get a /ssi.shtml
  get a /sub
  get a /big.bin -r 0-99
  abort_request a /big.bin
  abort_request a /big.bin
  get a /cgi/fail.sh
}

counts_on() { # <mpm>
  start_httpd -m "$1" 'VhostLimit On' -l include \
    -v 'a AddOutputFilter INCLUDES .shtml' -v 'a ErrorDocument 404 /page.html'
  counts_as 20 a requests_of_all_kinds
  counts_as 3 b get b '/cgi/echo.sh?[1-3]' -d body
  is "$(status_json | jq -r .mpm)" "$1"
}

caps_on() { # <mpm>
  start_httpd -m "$1" 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 5'
  local i
  for i in 1 2 3 4 5; do hold_request "h$i"; done
  is "$(get a /) $(get b /) $(status_of a running)" '503 200 5'
  release_request h3
  settles a running 4
  is "$(get a /)" 200
}

@test "on each MPM requests of all kinds are counted and end" {
  on_each_mpm counts_on
}

@test "on each MPM a sixth request is refused with VhostLimitConcurrency 5" {
  on_each_mpm caps_on
}
