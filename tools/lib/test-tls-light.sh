# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The cost of the module over TLS if no site exceeds its share.

describe_tls-light() {
  test_as light
  test_summary 'three sites with two keep-alive users each, over TLS: throughput with and without the module'
  test_tls
}
