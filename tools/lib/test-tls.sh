# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The published test over TLS; with -k connections are kept alive.

describe_tls() {
  test_summary '100 users on one site beside 2 x 500 on its neighbour, PHP over TLS'
  test_pages php
  test_tls
  test_load victim 1 site1 100
  test_load noisy 2 site2 500
  test_load noisy 3 site2 500
  test_row all "victim's share" '>= 0.47' '>= 0.5' 'this | site("victim").share'
  test_row all "victim's failures" '= 0' '= 0' 'this | site("victim").failures'
}
