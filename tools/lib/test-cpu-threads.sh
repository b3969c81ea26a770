# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# CPU time is shared, also where Apache's own threads burn it.

describe_cpu-threads() {
  test_summary "mod_lua that burns about 2 ms against 20 ms in Apache's threads: shares of the CPU"
  test_targets vhostlimit
  test_pages mixed
  test_modules lua
  test_load cheap 1 site1 100 0 100 lua2
  test_load dear 2 site2 100 0 100 lua20
  test_row all 'difference of the CPU shares' '<= 5 %' '<= 2 %' \
    'this | (cpu_share("cheap") - cpu_share("dear")) | fabs * 100'
}
