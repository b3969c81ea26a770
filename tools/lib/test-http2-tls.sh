# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Each protocol beside a flood over the other one.

describe_http2-tls() {
  local scene
  test_summary '100 users over HTTP/2 beside 1000 over HTTP/1.1 with TLS, and the other way round; keep-alive'
  test_pages static,php
  test_tls
  test_keepalive
  test_scene http2
  test_by h2load 10
  test_load victim 1 site1 100
  test_by wrk
  test_load noisy 2 site2 500
  test_load noisy 3 site2 500
  test_scene http1
  test_by wrk
  test_load victim 1 site1 100
  test_by h2load 20
  test_load noisy 2 site2 500
  test_load noisy 3 site2 500
  for scene in http2 http1; do
    test_row_share all 0.45 0.55 0.48 0.52 "$scene"
    test_row_rates all '>= 0.95' '>= 1.0' "$scene"
    test_row_failures all "$scene"
  done
}
