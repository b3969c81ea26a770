# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Three pages by three servers.

describe_pages() {
  test_summary 'ab, 50 users: hello world, phpinfo() and ten inserts into PostgreSQL, on plain Apache, with the module, on lighttpd'
  test_targets plain,vhostlimit,lighttpd
  test_pages hello,php,insert
  test_needs postgresql
  test_requests 1000 1000 300
  test_by ab
  test_load users 1 site1 50
  test_row all@vhostlimit 'rate / that of plain Apache' '>= 0.97' '>= 1.0' 'ratio(this | .total.rate; plain | .total.rate)'
  test_row all@lighttpd 'rate / that of plain Apache' '' '' 'ratio(this | .total.rate; plain | .total.rate)'
  test_row all 'failures' '= 0' '= 0' 'this | .total.failures'
}
