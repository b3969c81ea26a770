# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# CPU time is shared, even if Apache's own threads use it.

describe_cpu-threads() {
  test_summary "mod_lua pages of about 2 ms and 20 ms of CPU time in Apache's threads: CPU shares"
  test_modules lua
  test_cheap_and_dear lua2 lua20
  test_row all 'difference of the CPU shares' '<= 5 %' '<= 2 %' \
    'this | (cpu_share("cheap") - cpu_share("dear")) | fabs * 100'
}
