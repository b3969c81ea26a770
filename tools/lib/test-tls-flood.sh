# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# TLS connections that never send a request.

describe_tls-flood() {
  local flood
  test_summary '100 users over TLS beside 500 connections that only make handshakes, or only send ClientHellos'
  test_pages php
  test_tls
  test_scene alone
  test_load victim 1 site1 100
  for flood in handshake hello; do
    test_scene "$flood"
    test_by -
    test_load victim 1 site1 100
    test_by "$flood"
    test_load flood 2 site2 500
    test_row all "$flood: victim's rate / half of its rate alone" '>= 0.9' '>= 1.0' \
      "ratio(this(\"$flood\") | site(\"victim\").rate; this(\"alone\") | .total.rate / 2)"
    test_row all "$flood: victim's failures" '= 0' '= 0' "this(\"$flood\") | site(\"victim\").failures"
  done
}
