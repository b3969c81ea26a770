# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A CPU cap holds when no other site uses the CPU.

describe_cap() {
  test_summary 'VhostLimitCPU 25% on the only busy site, PHP in a pool of its own: its CPU time as the kernel counts it'
  test_targets vhostlimit
  test_pages mixed
  test_pools own
  test_idle
  test_site site2 'VhostLimitCPU 25%'
  test_load capped 2 site2 40 0 100 burn20
  test_row all 'least CPU use in 10 s' '>= 24 %' '' '[this | cpu_used("capped"; 10)] | min | values'
  test_row all 'most CPU use in 10 s' '<= 26 %' '' '[this | cpu_used("capped"; 10)] | max | values'
}
