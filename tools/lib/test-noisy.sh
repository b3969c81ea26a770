# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The published test: what a site gets beside a flooded one.

describe_noisy() {
  local victim="victim's rate / half of plain Apache's total" total="total / plain Apache's total"
  local is_victim='ratio(this | site("victim").rate; plain | .total.rate / 2)'
  local is_total='ratio(this | .total.rate; plain | .total.rate)'
  test_summary '100 users on one site beside 2 x 500 on its neighbour, static and PHP pages'
  test_rivals mod_qos,haproxy,process-limit
  test_pages static,php
  test_tuned static
  test_load victim 1 site1 100
  test_load noisy 2 site2 500
  test_load noisy 3 site2 500
  test_row static:close "$victim" '>= 0.95' '>= 1.0' "$is_victim"
  test_row static:close "$total" '>= 0.95' '>= 1.0' "$is_total"
  test_row static:keepalive "$victim" '>= 0.90' '>= 0.97' "$is_victim"
  test_row static:keepalive "$total" '>= 0.90' '>= 0.97' "$is_total"
  test_row php "$victim" '>= 0.97' '>= 1.0' "$is_victim"
  test_row php "$total" '>= 0.97' '>= 1.0' "$is_total"
  test_row static:close "victim's p99 / its p99 on plain Apache" '<= 0.3' '<= 0.2' \
    'ratio(this | site("victim").p99_s; plain | site("victim").p99_s)'
  test_row all 'failures of either site' '= 0' '= 0' 'this | .total.failures'
  noisy_published
}

noisy_published() {
  test_source 'Published for this test: Apache 2.4.29, siege 4, five minutes, 2 CPUs of a shared machine with 43 to 53 % steal.'
  test_published static "victim's rate" 283.7 /s 'this | site("victim").rate'
  test_published static "noisy site's rate" 2265.9 /s 'this | site("noisy").rate'
  test_published static "victim's availability" 99.98 % 'this | site("victim").availability'
  test_published static "victim's longest answer" 27 s 'this | site("victim").longest_s'
  test_published static "Jain's index" 0.62 '' 'this | .jain'
  test_published php "victim's rate" 79.8 /s 'this | site("victim").rate'
  test_published php "noisy site's rate" 313.8 /s 'this | site("noisy").rate'
  test_published php "victim's availability" 99.74 % 'this | site("victim").availability'
  test_published php "victim's longest answer" 27 s 'this | site("victim").longest_s'
  test_published php "Jain's index" 0.74 '' 'this | .jain'
}
