# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# An open-loop load: the victim sends requests at a constant rate, about a tenth of the
# server's capacity, even while earlier ones wait.  So its percentiles have no coordinated
# omission.  All other tests are closed loops.

describe_steady() {
  local scene
  test_summary 'open loop: 100 requests a second of one site, alone and beside 2 x 500 users of another over HTTP/1.1 and HTTP/2, PHP over TLS'
  test_pages php
  test_tls
  test_keepalive
  test_idle
  for scene in alone http1 http2; do
    test_scene "$scene"
    test_by h2load 100:rate=10
    test_load victim 1 site1 1000
    case $scene in http1) test_by wrk ;; http2) test_by h2load 20 ;; alone) continue ;; esac
    test_load noisy 2 site2 500
    test_load noisy 3 site2 500
  done
  for scene in http1 http2; do
    test_row all "$scene: victim's p99 / its p99 alone" '<= 5' '<= 2' \
      "ratio(this(\"$scene\") | site(\"victim\").p99_s; this(\"alone\") | site(\"victim\").p99_s)"
    test_row all "$scene: victim's responses / its requests" '>= 0.95' '>= 0.99' \
      "this(\"$scene\") | site(\"victim\").rate / 100"
    test_row all "$scene: the same on plain Apache" '' '' "plain(\"$scene\") | site(\"victim\").rate / 100"
    test_row all "$scene: noisy site's rate / its rate on plain Apache" '' '' \
      "ratio(this(\"$scene\") | site(\"noisy\").rate; plain(\"$scene\") | site(\"noisy\").rate)"
    test_row all "$scene: victim's failures" '= 0' '= 0' "this(\"$scene\") | site(\"victim\").failures"
  done
}
