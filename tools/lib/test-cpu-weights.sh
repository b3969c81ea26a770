# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# CPU shares follow weights, whatever a request costs.

describe_cpu-weights() {
  test_summary 'weights 300, 200 and 100, PHP pages of 2, 20 and 2 ms of CPU time, a pool for each site: CPU shares'
  test_targets vhostlimit
  test_pages mixed
  test_pools own
  test_site site1 'VhostLimitWeight 300'
  test_site site2 'VhostLimitWeight 200'
  test_site site3 'VhostLimitWeight 100'
  test_load three 1 site1 100 0 100 burn2
  test_load two 2 site2 100 0 100 burn20
  test_load one 3 site3 100 0 100 burn2
  test_row all 'worst relative error of the CPU shares' '<= 5 %' '<= 2 %' \
    'this | [(cpu_share("three") * 2, cpu_share("two") * 3, cpu_share("one") * 6) - 1 | fabs * 100] | max'
}
