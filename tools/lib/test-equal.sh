# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The published test's first three parts: one, two and three sites, 100 users each.

describe_equal() {
  local least='[.sites[].rate] | min / (add / length)' page
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
  test_source 'Published for these: Apache 2.4.29, siege 4, five minutes, 2 CPUs of a shared machine with 43 to 53 % steal.'
  for page in 'static 2326.6 1278 0.986' 'php 193.6 180 0.970'; do
    # shellcheck disable=SC2086  # words
    equal_published $page
  done
}

equal_published() { # <page> <rate alone> <rate of each of two> <Jain's index of three>
  test_published "$1" 'one site: its rate' "$2" /s 'this("one") | site("first").rate'
  test_published "$1" "two sites: the first's rate" "$3" /s 'this("two") | site("first").rate'
  test_published "$1" "three sites: Jain's index" "$4" '' 'this("three") | .jain'
}
