# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# HTTP/2 streams: the users are streams, ten or twenty on each connection.

describe_http2() {
  test_summary '10 HTTP/2 connections with 10 streams beside 50 of another site with 20, static and PHP pages'
  test_pages static,php
  test_tls
  test_by h2load 10
  test_load victim 1 site1 100
  test_by h2load 20
  test_load noisy 2 site2 500
  test_load noisy 3 site2 500
  test_row_rates all '>= 0.95' '>= 1.0'
  test_row_share all 0.45 0.55 0.48 0.52
  test_row_p99 all
  test_row_failures all
}
