# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# As inside, with a flood from a network whose addresses are one client (VhostLimitClients).

test_with inside

describe_inside-net() {
  local line='VhostLimitClients On 24 64'
  test_summary '10 visitors of a site beside 1000 connections of the same site from 256 addresses, one /24'
  test_local 'the flood comes from addresses that only they have'
  inside_alone "$line"
  inside_flood flood "$line" crowd addresses=256
}
