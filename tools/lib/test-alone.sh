# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The cost of the module for a site that is alone on the server.

describe_alone() {
  test_summary '100 users on the only busy site: throughput with and without the module'
  test_load alone 1 site1 100
  test_row all 'throughput / that of plain Apache' '>= 0.98' '>= 1.0' \
    'ratio(this | .total.rate; plain | .total.rate)'
}
