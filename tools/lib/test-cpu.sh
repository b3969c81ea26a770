# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# CPU time is shared, not requests.

describe_cpu() {
  test_summary 'PHP that burns 2 ms against 20 ms, each site with a pool of its own: shares of the CPU'
  test_targets vhostlimit
  test_pages mixed
  test_pools own
  test_load cheap 1 site1 100 0 100 burn2
  test_load dear 2 site2 100 0 100 burn20
  test_row all 'difference of the CPU shares' '<= 5 %' '<= 2 %' \
    'this | (cpu_share("cheap") - cpu_share("dear")) | fabs * 100'
}
