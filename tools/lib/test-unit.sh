# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# WordPress in a pool of PHP-FPM outside and inside of the unit of "vhostlimitctl unit".

describe_unit() {
  test_with frameworks          # frameworks_needs
  test_summary "siege, 20 users: WordPress in its site's pool of PHP-FPM, outside and inside of the unit of vhostlimitctl"
  test_targets vhostlimit,unit
  test_pages wordpress
  test_pools own
  test_repeat 10
  test_by siege
  test_idle
  test_needs "$(frameworks_needs "${test_option[pages]:-wordpress}")"
  test_local 'the units of the sites are those of this machine'
  test_docroot /var/tmp
  test_line 'VhostLimitQueue 1000 60s'
  test_requests 2000 400 100
  test_load users 1 site1 20
  test_row all@unit 'rate / that outside of the unit' '>= 0.98' '' 'ratio(this("-") | .total.rate; with("vhostlimit"; "-") | .total.rate)'
  test_row all@unit "PHP's CPU time of a response / that outside of the unit" '' '' 'ratio(this("-") | pool_of_response; with("vhostlimit"; "-") | pool_of_response)'
  test_row all failures '= 0' '= 0' 'this("-") | .total.failures'
}
