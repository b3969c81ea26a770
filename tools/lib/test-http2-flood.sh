# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# More HTTP/2 connections of one site than its queue has places (VhostLimitQueue is
# 1000 by default).

describe_http2-flood() {
  test_summary '10 HTTP/2 connections with 10 streams beside 4000 connections of another site with one stream, PHP'
  test_pages php
  test_tls
  test_by h2load 10
  test_load victim 1 site1 100
  test_by h2load 1
  test_load noisy 2 site2 2000
  test_load noisy 3 site2 2000
  test_row all "victim's rate / half of plain Apache's total" '>= 0.9' '>= 1.0' \
    'ratio(this | site("victim").rate; plain | .total.rate / 2)'
  test_row all "total / plain Apache's total" '' '' 'ratio(this | .total.rate; plain | .total.rate)'
  test_row all "victim's failures" '= 0' '= 0' 'this | site("victim").failures'
}
