# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Random host names at a virtual host that has an account for each name.

describe_hosts() {
  test_summary '100 users beside 500 of another virtual host, which use one name or 50000 random names'
  test_targets vhostlimit
  test_pages php
  test_site site2 'ServerAlias *.site2.test'
  test_site site2 'VhostLimitAccounts Host'
  test_scene one
  test_load victim 1 site1 100
  test_load noisy 2 site2 500
  test_scene random
  test_load victim 1 site1 100
  test_by hosts
  test_load noisy 2 site2 500
  test_row all "victim's p99 beside random names / beside one name" '<= 1.2' '<= 1.1' \
    'ratio(this("random") | site("victim").p99_s; this("one") | site("victim").p99_s)'
  test_row all "victim's rate beside random names / beside one name" '>= 0.95' '>= 1.0' \
    'ratio(this("random") | site("victim").rate; this("one") | site("victim").rate)'
  test_row all "victim's failures" '= 0' '= 0' 'this("random") | site("victim").failures'
}
