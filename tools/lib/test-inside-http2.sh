# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# As inside, over HTTP/2: the flood has a stream on each of 1000 connections, or 20 on each
# of 50.

test_with inside

describe_inside-http2() {
  test_summary 'as inside, over HTTP/2: 10 visitors of a site beside 1000 connections of one client, and beside 50 with 20 streams'
  test_tls
  test_by h2load 1
  inside_alone
  inside_flood connections
  inside_flood streams h2load 20
}
