# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Classes of one site share it by weight.

describe_classes() {
  test_summary 'two classes of one site with weights 300 and 100, 300 users each'
  test_local 'the classes are the addresses of its clients'
  test_pages static,php
  test_site site1 "VhostLimitClass three weight=300 \"-R '198.18.0.11'\""
  test_site site1 "VhostLimitClass one weight=100 \"-R '198.18.0.12'\""
  test_load three 1 site1 300
  test_load one 2 site1 300
  test_row all 'worst relative error of the shares' '<= 5 %' '<= 2 %' \
    'this | [(site("three").share / 3, site("one").share) * 4 - 1 | fabs * 100] | max'
  test_row_plain all three "heavier class's" rate
  test_row_plain all three "heavier class's" p99
  test_row_total all '>= 0.95' '>= 1.0'
  test_row_plain_failures all three "heavier class's"
  test_row_plain_failures all one "lighter class's"
}
