# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A flood with far more connections than Apache has threads, and than VhostLimitQueue, with
# the module's default configuration.

describe_many() {
  local users each client
  test_summary '8000 and 20000 connections of one site beside 50 of another'
  test_pages php
  for users in 400 8000 20000; do
    test_scene "$users"
    test_load victim 1 site1 50
    each=$((users / 4))
    for client in 2 3 2 3; do
      test_load noisy "$client" site2 "$each"
    done
  done
  for users in 8000 20000; do
    test_row_rates all '>= 0.9' '>= 1.0' "$users"
    test_row all "$users: victim's p99 / its p99 beside 400" '<= 4' '<= 2' \
      "ratio(this(\"$users\") | site(\"victim\").p99_s; this(\"400\") | site(\"victim\").p99_s)"
    test_row all "$users: victim's failures" '= 0' '= 0' "this(\"$users\") | site(\"victim\").failures"
  done
}
