# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# How much longer requests of a site take because its neighbor is flooded.

describe_baseline() {
  test_summary "p99 of a site with 100 users beside 2 x 500 users of another site, and beside 100"
  test_targets vhostlimit
  test_pages static,php
  test_scene flood
  test_load victim 1 site1 100
  test_load noisy 2 site2 500
  test_load noisy 3 site2 500
  test_scene pair
  test_load victim 1 site1 100
  test_load even 2 site2 100
  test_row all "victim's p99 in the flood / beside 100 users" '<= 1.5' '<= 1.1' \
    'ratio(this("flood") | site("victim").p99_s; this("pair") | site("victim").p99_s)'
}
