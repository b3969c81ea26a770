# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Three servers with a quota of CPU time each, and vhostlimit-fleet beside them: the share
# of a site of all servers, a store that dies, the daemon's cost, and a limit of CPU time
# over all servers.

describe_fleet() {
  local web
  test_summary 'three servers that share sites with vhostlimit-fleet: shares, a store that dies, cost, a limit over all servers'
  test_targets vhostlimit
  test_pages mixed
  test_modules lua
  test_idle
  test_fleet 3
  test_seconds 60 30 16

  test_scene share
  test_line 'VhostLimitSlots 3'
  test_quota 30
  for web in 1 2 3; do test_load a "$web" site1 40 0 100 lua2; done
  test_load b 3 site2 60 25 100 lua2
  test_row all "share: B's part of the fleet's CPU, off its fair part, from 3 s on" '<= 3 %' '<= 1 %' \
    'this("share") | fleet_off("b"; 3)'
  test_row all 'share: the same from 2 s on' '' '<= 1 %' 'this("share") | fleet_off("b"; 2)'
  test_row all 'share: the same in the worst second from 3 s on' '' '' 'this("share") | fleet_off_most("b"; 3)'
  test_row all "share: B's fair part" '' '' 'this("share") | fleet_due("b"; 3)'

  test_scene store
  test_line 'VhostLimitSlots 3'
  test_quota 30
  test_store_gone 30 65
  for web in 1 2 3; do test_load a "$web" site1 40 0 100 lua2; done
  test_load b 3 site2 60 0 100 lua2
  test_row all 'store: failed requests' '= 0' '= 0' 'this("store") | .total.failures'
  test_row all 'store: its death until no server has leases' '<= 3 s' '' 'this("store") | until_lapsed'
  test_row all 'store: its return until every server has leases' '<= 3 s' '' 'this("store") | until_held'

  test_scene sites
  test_vhosts 1000
  test_by hosts 1000
  for web in 1 2 3; do test_load all "$web" site1 20 0 100 static; done
  test_by -
  test_row all "1000 sites: a daemon's CPU time" '<= 0.1 %' '' 'this("sites") | daemon_cpu'
  test_row all '1000 sites: rows that it reads (three servers)' '' '' 'this("sites") | daemon_rows'
  test_row all '1000 sites: traffic of one daemon, Mbit/s' '' '' 'this("sites") | daemon_traffic'

  test_scene cap
  test_quota 45
  test_daemon 'limit site1.test cpu=100%'
  for web in 1 2 3; do test_load capped "$web" site1 40 0 100 lua2; done
  test_row all 'cap of 100 % over three servers: CPU time of the site, at least' '>= 95 %' '>= 98 %' \
    'this("cap") | fleet_used_by("capped"; 3)'
  test_row all 'cap of 100 % over three servers: CPU time of the site, at most' '<= 105 %' '<= 102 %' \
    'this("cap") | fleet_used_by("capped"; 3)'
  test_row all 'cap: CPU time of the three servers, as the kernel counts it' '' '' 'this("cap") | fleet_kernel("capped"; 3)'
}
