# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# CPU time is shared, not the number of requests.

describe_cpu() {
  test_summary 'PHP pages of 2 ms and 20 ms of CPU time, a pool for each site: CPU shares'
  test_pools own
  test_cheap_and_dear burn2 burn20
  test_row all 'difference of the CPU shares' '<= 5 %' '<= 2 %' \
    'this | (cpu_share("cheap") - cpu_share("dear")) | fabs * 100'
}
