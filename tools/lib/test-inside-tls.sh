# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# As inside, over TLS: a new connection is classified by its ClientHello.

describe_inside-tls() {
  test_tls
  test_as inside
  test_summary 'as inside, over TLS: 10 visitors of a site beside one client with 1000 connections'
}
