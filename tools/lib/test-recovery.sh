# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# How long a site is below its share when a flood begins.

describe_recovery() {
  test_summary 'a flood of 2 x 500 users starts: time until 100 users of another site get their share'
  test_targets vhostlimit
  test_pages static,php
  test_samples 20
  test_load victim 1 site1 100
  test_load noisy 2 site2 500 34 100
  test_load noisy 3 site2 500 34 100
  test_row all 'time until the victim has its share' '<= 1 s' '<= 0.2 s' 'this | until_share("victim")'
}
