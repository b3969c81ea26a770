# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The test noisy over TLS; with -k connections are kept alive.

describe_tls() {
  test_summary '100 users on one site beside 2 x 500 on its neighbor, static and PHP pages over TLS'
  ! test_is_kept || test_targets plain,plain-best,vhostlimit
  test_pages static,php
  test_tls
  test_load victim 1 site1 100
  test_load noisy 2 site2 500
  test_load noisy 3 site2 500
  test_row_rates static:close '>= 0.95' '>= 1.0'
  test_row_rates php:close '>= 0.95' '>= 1.0'
  test_row_rates static:keepalive '>= 5' '>= 10'
  test_row_rates static:keepalive '>= 1.2' '>= 1.5' - plain-best
  test_row_rates php:keepalive '>= 1.4' '>= 2'
  test_row_rates php:keepalive '>= 1.1' '>= 1.4' - plain-best
  test_row_share all 0.47 0.53 0.49 0.51
  test_row_p99 static:keepalive
  test_row_p99 php:keepalive
  test_row_failures all
}
