# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The service of a site beside a flooded one.

describe_noisy() {
  test_summary '100 users on one site beside 2 x 500 on its neighbor, static and PHP pages'
  ! test_is_kept || test_targets plain,plain-best,vhostlimit
  test_rivals mod_qos,haproxy,process-limit
  test_pages static,php
  test_load victim 1 site1 100
  test_load noisy 2 site2 500
  test_load noisy 3 site2 500
  test_row_rates static:close '>= 0.95' '>= 1.0'
  test_row_rates static:keepalive '>= 1.0' '>= 1.1'
  test_row_rates static:keepalive '>= 0.95' '>= 1.0' - plain-best
  test_row_rates php '>= 0.97' '>= 1.0'
  test_row_share static:close 0.49 0.51 0.49 0.51
  test_row static:close "victim's p99 / its p99 on plain Apache" '<= 0.3' '<= 0.2' \
    'ratio(this | site("victim").p99_s; plain | site("victim").p99_s)'
  test_row_p99 static:keepalive
  test_row_p99 php:keepalive
  test_row_failures all
}
