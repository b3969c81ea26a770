# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A flood far beyond what Apache has threads for.

describe_many() {
  local client
  test_summary '8000 connections of one site against 50 of another'
  test_pages php
  test_line 'VhostLimitQueue 10000 60s'
  test_load victim 1 site1 50
  for client in 2 3 2 3; do
    test_load noisy "$client" site2 2000
  done
  test_row all "victim's share" '>= 0.45' '>= 0.5' 'this | site("victim").share'
  test_row all "victim's failures" '= 0' '= 0' 'this | site("victim").failures'
}
