# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Shares by weight.

describe_weights() {
  test_summary 'three sites of weights 300, 200 and 100, each with 300 users'
  test_targets vhostlimit
  test_pages static,php
  test_site site1 'VhostLimitWeight 300'
  test_site site2 'VhostLimitWeight 200'
  test_site site3 'VhostLimitWeight 100'
  test_load three 1 site1 300
  test_load two 2 site2 300
  test_load one 3 site3 300
  test_row all 'worst relative error of the shares' '<= 5 %' '<= 2 %' \
    'this | [(site("three").share * 2, site("two").share * 3, site("one").share * 6) - 1 | fabs * 100] | max'
}
