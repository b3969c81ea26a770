# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Standing overload: a site gets twice the requests that the server can answer, and its
# clients give up after 3 s.  In order of arrival nearly every answer would be too late.
# The capacity is that of plain Apache with 100 users, measured beforehand for the rate, and
# in each repetition for the rows.  If fewer requests ended than 1.5 times the capacity, it
# was measured too low, and there was no overload.  The rate does not depend on the number
# of users: 10000 is how many connections may be open, for the limit of descriptors.  The
# module has no switch for order of arrival; --target haproxy is a queue of that kind in
# front.

describe_overload() {
  test_summary 'twice the requests that the server can answer for 60 s, from clients that give up after 3 s, PHP'
  test_local 'its requests come from addresses that only they have'
  test_rivals haproxy
  test_pages php
  test_seconds 60 60 15
  test_capacity
  test_scene capacity
  test_by crowd addresses=16000
  test_load visitor 1 site1 100
  test_scene overload
  test_by crowd addresses=16000:rate=200%:patience=3
  test_load visitor 1 site1 10000
  test_row all 'responses within 3 s / capacity' '>= 0.9' '>= 0.95' \
    'ratio(this("overload") | .total.rate; plain("capacity") | .total.rate)'
  test_row all 'the same on plain Apache' '' '' \
    'ratio(plain("overload") | .total.rate; plain("capacity") | .total.rate)'
  test_row all 'requests that ended / capacity' '>= 1.5' '' \
    'ratio(this("overload") | (.total.transactions + .total.failures) / .seconds; plain("capacity") | .total.rate)'
  test_row all 'capacity / that of plain Apache' '>= 0.95' '>= 1.0' \
    'ratio(this("capacity") | .total.rate; plain("capacity") | .total.rate)'
}
