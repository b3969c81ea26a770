# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The test noisy on the other MPMs.

describe_mpms() {
  local mpm
  test_summary 'prefork and worker: 100 users on one site beside 2 x 500 on its neighbor, static and PHP pages'
  test_pages static,php
  for mpm in prefork worker; do
    test_scene "$mpm"
    test_mpm "$mpm"
    test_load victim 1 site1 100
    test_load noisy 2 site2 500
    test_load noisy 3 site2 500
    test_row_share all 0.47 0.53 0.49 0.51 "$mpm"
    test_row all "$mpm: victim's rate / half of plain Apache's total" '' '' \
      "ratio(this(\"$mpm\") | site(\"victim\").rate; plain(\"$mpm\") | .total.rate / 2)"
    test_row all "$mpm: total / plain Apache's total" '>= 0.9' '>= 1.0' \
      "ratio(this(\"$mpm\") | .total.rate; plain(\"$mpm\") | .total.rate)"
    test_row_failures all "$mpm"
  done
}
