# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The visitors of a site beside one client that floods the same site.

describe_inside() {
  test_summary '10 visitors of a site beside one client of the same site with 1000 connections'
  test_pages static,php
  test_idle
  test_scene alone
  test_load visitor 2 site1 10
  test_scene flood
  test_load visitor 2 site1 10
  test_load flood 1 site1 1000
  test_row all "visitors' rate / their share: half of plain Apache's total, or their rate alone if that is less" \
    '>= 0.95' '>= 1.0' 'ratio(this("flood") | site("visitor").rate; [(plain("flood") | .total.rate / 2), (this("alone") | site("visitor").rate)] | min)'
  test_row all "visitors' p99 / their p99 alone" '<= 3' '<= 2' \
    'ratio(this("flood") | site("visitor").p99_s; this("alone") | site("visitor").p99_s)'
  test_row all "visitors' rate / their rate on plain Apache" '' '' \
    'ratio(this("flood") | site("visitor").rate; plain("flood") | site("visitor").rate)'
  test_row all "total / plain Apache's total" '>= 0.95' '>= 1.0' \
    'ratio(this("flood") | .total.rate; plain("flood") | .total.rate)'
  test_row all 'failures of either' '= 0' '= 0' 'this("flood") | .total.failures'
}
