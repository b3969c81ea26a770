# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The virtual hosts of a site are one account (docs/design/010-sites.md).  CPU time is
# shared, so the shares are those of CPU time: a response over https costs more.  So the
# total of responses depends on the shares and has no bar.

describe_schemes() {
  local cpu='ratio(cpu("https"); cpu("https") + cpu("other"))'
  test_summary '300 users on a site over https and 300 over http, beside 300 over https on another site'
  test_pages static,php
  test_tls both
  test_pools own
  test_scheme https
  test_load https 1 site1 300
  test_load other 2 site2 300
  test_scheme http
  test_load http 3 site1 300
  test_row all "site's share of the CPU time of both sites" '>= 0.45' '>= 0.48' "this | $cpu"
  test_row all "site's share of the CPU time of both sites, at most" '<= 0.55' '<= 0.52' "this | $cpu"
  test_row all "site's share of the responses" '' '' 'this | site("https").share + site("http").share'
  test_row all "the same on plain Apache" '' '' 'plain | site("https").share + site("http").share'
  test_row_plain all other "other site's" rate
  test_row_plain all:keepalive other "other site's" p99
  test_row_total all '' ''
  test_row_plain_failures all other "other site's"
}
