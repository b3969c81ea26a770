# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# CPU time is shared, even if two sites use one PHP-FPM pool.

describe_cpu-shared() {
  test_summary 'PHP pages of 2 ms and 20 ms of CPU time, both sites in one pool: CPU shares'
  test_cheap_and_dear burn2 burn20
  test_row all 'difference of the CPU shares' '<= 10 %' '<= 5 %' \
    'this | (pool_share("cheap") - pool_share("dear")) | fabs * 100'
}
