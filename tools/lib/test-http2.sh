# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Streams of HTTP/2: the users are streams, ten or twenty of one connection.

describe_http2() {
  test_summary '10 HTTP/2 connections with 10 streams beside 50 with 20, PHP'
  test_pages php
  test_tls
  test_by h2load 10
  test_load victim 1 site1 100
  test_by h2load 20
  test_load noisy 2 site2 500
  test_load noisy 3 site2 500
  test_row all "victim's share of 2xx" '>= 0.45' '>= 0.5' 'this | site("victim").share'
  test_row all "victim's failures" '= 0' '= 0' 'this | site("victim").failures'
}
