# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The published test on the other MPMs.

describe_mpms() {
  local mpm
  test_summary 'prefork and worker: 100 users on one site beside 2 x 500 on its neighbour, PHP'
  test_pages php
  for mpm in prefork worker; do
    test_scene "$mpm"
    test_mpm "$mpm"
    test_load victim 1 site1 100
    test_load noisy 2 site2 500
    test_load noisy 3 site2 500
    test_row all "$mpm: victim's share of 2xx" '>= 0.40' '>= 0.5' "this(\"$mpm\") | site(\"victim\").share"
    test_row all "$mpm: victim's failures" '= 0' '= 0' "this(\"$mpm\") | site(\"victim\").failures"
  done
}
