# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The cost of the module if no site exceeds its share.

describe_light() {
  test_summary 'three sites with four keep-alive users each: throughput with and without the module'
  test_keepalive
  test_idle
  test_load light 1 site1 4
  test_load light 2 site2 4
  test_load light 3 site3 4
  test_row all 'throughput / that of plain Apache' '>= 0.98' '>= 1.0' \
    'ratio(this | .total.rate; plain | .total.rate)'
}
