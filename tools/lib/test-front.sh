# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Apache behind a reverse proxy.

describe_front() {
  local front
  test_summary 'behind HAProxy, plain and with the PROXY protocol: 100 users on one site beside 2 x 500 on another, PHP'
  test_pages php
  for front in keepalive proxy; do
    test_scene "$front"
    test_front "$front"
    test_load victim 1 site1 100
    test_load noisy 2 site2 500
    test_load noisy 3 site2 500
    test_row all "$front: victim's share" '>= 0.47' '>= 0.5' "this(\"$front\") | site(\"victim\").share"
  done
}
