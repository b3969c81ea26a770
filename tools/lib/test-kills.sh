# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The cost of a child process that dies: the requests that it ran, and those queued on its
# connections.

describe_kills() {
  local site each=25 children=3         # ThreadsPerChild of the test bed
  test_summary '100 users on one site beside 2 x 500 on its neighbor, PHP, while three child processes of Apache are killed'
  test_pages php
  test_load victim 1 site1 100
  test_load noisy 2 site2 500
  test_load noisy 3 site2 500
  test_kills "$children"
  for site in victim noisy; do
    test_row all "$site site's failures, less plain Apache's" "<= $((children * each))" '<= 0' \
      "(this | site(\"$site\").failures) - (plain | site(\"$site\").failures)"
  done
  test_row_rates all '>= 0.9' '>= 1.0'
}
