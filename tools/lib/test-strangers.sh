# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Clients that were served before, beside a flood of requests each of which has an address
# of its own.  A site can tell the visitors from it by VhostLimitKnown only.  10000 requests
# are open at any time, from 16000 addresses in turn.
#
# The visitors are an open loop of 40 requests a second, so they become known before the
# flood begins: a client becomes known when it is answered while no request waits.

describe_strangers() {
  local scene
  test_summary '20 known visitors of a site with 40 requests a second beside 10000 addresses with a request each, PHP'
  test_local 'its requests come from addresses that only they have'
  test_pages php
  test_idle
  for scene in alone flood; do
    test_scene "$scene"
    test_line 'VhostLimitKnown Address'
    test_by crowd addresses=20:rate=2
    test_load early 1 site1 20 0 34
    test_load visitor 1 site1 20 34 100
  done
  test_by crowd addresses=16000
  test_load stranger 2 site1 10000 34 100
  test_row all "visitors' p99 / their p99 alone" '<= 3' '<= 2' \
    'ratio(this("flood") | site("visitor").p99_s; this("alone") | site("visitor").p99_s)'
  test_row all 'the same on plain Apache' '' '' \
    'ratio(plain("flood") | site("visitor").p99_s; plain("alone") | site("visitor").p99_s)'
  test_row all "visitors' responses / their requests" '>= 0.95' '>= 0.99' 'this("flood") | site("visitor").rate / 40'
  test_row_plain all visitor "visitors'" rate flood
  test_row_plain all visitor "visitors'" p99 flood
  test_row_total all '>= 0.95' '>= 1.0' flood
  test_row_plain_failures all visitor "visitors'" flood
}
