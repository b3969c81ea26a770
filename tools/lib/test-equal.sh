# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# One, two and three sites, 100 users each.

describe_equal() {
  local least='[.sites[].rate] | min / (add / length)'
  test_summary 'one, two and three sites with 100 users each, static and PHP pages'
  test_pages static,php
  test_scene one
  test_load first 1 site1 100
  test_scene two
  test_load first 1 site1 100
  test_load second 2 site2 100
  test_scene three
  test_load first 1 site1 100
  test_load second 2 site2 100
  test_load third 3 site3 100
  test_row all 'two sites: the least rate / the mean' '>= 0.95' '>= 0.98' "this(\"two\") | $least"
  test_row all 'three sites: the least rate / the mean' '>= 0.95' '>= 0.98' "this(\"three\") | $least"
  test_row all "three sites: total / plain Apache's" '>= 0.95' '>= 1.0' \
    'ratio(this("three") | .total.rate; plain("three") | .total.rate)'
  test_row all 'failures' '= 0' '= 0' 'this("three") | .total.failures'
}
