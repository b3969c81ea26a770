# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The server when the kind of requests changes.

describe_mix() {
  local role
  test_summary 'static pages, then PHP that computes, then PHP that sleeps 50 ms: idle time of the server'
  test_targets vhostlimit
  test_pages mixed
  test_fpm_children 64
  test_samples 10
  test_idle
  test_load static 1 site1 300 0 34 static
  test_load computes 2 site2 300 34 67 php
  test_load sleeps 3 site3 300 67 100 sleep
  for role in static computes sleeps; do
    test_row all "$role: server's CPU idle" '<= 10 %' '<= 5 %' "this | idle_in(\"$role\")"
  done
}
