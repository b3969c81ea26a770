# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Three servers with a quota of CPU time each, and vhostlimit-fleet beside them: the share
# of a site of all servers, a store that dies, the daemon's cost, and a limit of CPU time
# over all servers.  Plain Apache takes the same loads on the same servers: its requests and
# failures stand beside those of the module.  It has no shares, no store and no limit of CPU time, so
# the other rows have no figure of it.

describe_fleet() {
  local web
  test_summary 'three servers that share sites with vhostlimit-fleet: shares, a store that dies, cost, a limit over all servers'
  test_targets plain,vhostlimit
  test_pages mixed
  test_modules lua
  test_idle
  test_fleet 3
  test_seconds 60 30 16

  test_scene share
  test_quota 30
  for web in 1 2 3; do test_load a "$web" site1 40 0 100 lua2; done
  test_load b 3 site2 60 25 100 lua2
  test_row all@vhostlimit "share: B's part of the fleet's CPU, off its fair part, from 3 s on" '<= 3 %' '<= 1 %' \
    'this("share") | fleet_off("b"; 3)'
  test_row all@vhostlimit 'share: the same from 2 s on' '' '<= 1 %' 'this("share") | fleet_off("b"; 2)'
  test_row all@vhostlimit 'share: the same in the worst second from 3 s on' '' '' 'this("share") | fleet_off_most("b"; 3)'
  test_row all@vhostlimit "share: B's fair part" '' '' 'this("share") | fleet_due("b"; 3)'
  fleet_row_plain share
  test_row all@vhostlimit "share: b's responses / those on plain Apache" '' '' \
    'ratio(this("share") | site("b").rate; plain("share") | site("b").rate)'
  test_row all@vhostlimit 'share: failed requests' '' '' 'this("share") | .total.failures'

  test_scene store
  test_quota 30
  test_store_gone 30 65
  for web in 1 2 3; do test_load a "$web" site1 40 0 100 lua2; done
  test_load b 3 site2 60 0 100 lua2
  test_row all@vhostlimit 'store: failed requests' '= 0' '= 0' 'this("store") | .total.failures'
  fleet_row_plain store
  test_row all@vhostlimit 'store: its death until no server has leases' '<= 3 s' '' 'this("store") | until_lapsed'
  test_row all@vhostlimit 'store: its return until every server has leases' '<= 3 s' '' 'this("store") | until_held'

  test_scene sites
  test_vhosts 1000
  test_by hosts 1000
  for web in 1 2 3; do test_load all "$web" site1 20 0 100 static; done
  test_by -
  test_row all@vhostlimit "1000 sites: a daemon's CPU time" '<= 0.1 %' '' 'this("sites") | daemon_cpu'
  test_row all@vhostlimit '1000 sites: rows that it reads (three servers)' '' '' 'this("sites") | daemon_rows'
  test_row all@vhostlimit '1000 sites: traffic of one daemon, Mbit/s' '' '' 'this("sites") | daemon_traffic'
  fleet_row_plain sites '1000 sites'

  # Pages of 20 ms: the clients need little CPU time, so requests always wait for the limit.
  test_scene cap
  test_quota 45
  test_daemon 'limit site1.test cpu=100%'
  for web in 1 2 3; do test_load capped "$web" site1 40 0 100 lua20; done
  test_row all@vhostlimit 'cap of 100 % over three servers: CPU time of the site, at least' '>= 95 %' '>= 98 %' \
    'this("cap") | fleet_used_by("capped"; 3)'
  test_row all@vhostlimit 'cap of 100 % over three servers: CPU time of the site, at most' '<= 105 %' '<= 102 %' \
    'this("cap") | fleet_used_by("capped"; 3)'
  test_row all@vhostlimit 'cap: CPU time of the three servers, as the kernel counts it' '' '' 'this("cap") | fleet_kernel("capped"; 3)'
}

# The rate of the whole fleet beside that of plain Apache, and plain Apache's failures.
fleet_row_plain() { # <scene> [name]
  test_row all@vhostlimit "${2-$1}: responses of all servers / those of plain Apache" '' '' \
    "ratio(this(\"$1\") | .total.rate; plain(\"$1\") | .total.rate)"
  test_row all@vhostlimit "${2-$1}: failed requests on plain Apache" '' '' "plain(\"$1\") | .total.failures"
}
