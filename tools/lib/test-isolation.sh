# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Performance isolation: four sites have a load of 2 % of the server's capacity each, then
# the fourth has a hundred times that, in five ways.  How much longer do requests of the
# others take?  The metrics are in isolation.jq, the configurations of the rivals in
# conf/testbed.  All loads are open loops at a constant rate, and a client gives up after
# 10 s.  The 10000 and 20000 users are the number of connections that may be open, for the
# limit of descriptors; they do not change the rate.

isolation_kinds=(requests cpu slow network swarm)

describe_isolation() {
  local kind level levels=(100)
  test_summary 'four sites, one of which has a hundred times its load (requests, CPU, slow clients, one network, a swarm): what the others lose; rivals alike'
  test_local 'its requests come from addresses that only they have'
  test_targets plain,mod_qos,haproxy,nginx,vhostlimit
  test_pages mixed
  test_pools own
  test_sites 4
  test_idle
  test_seconds 60 20 3
  test_repeat 10
  ! test_is_full || levels=(10 100)
  test_capacity capacity
  test_by crowd addresses=16000
  test_load abiding 1 site1 100 0 100 burn2
  isolation_scene reference
  for kind in "${isolation_kinds[@]}"; do
    for level in "${levels[@]}"; do
      isolation_scene "$kind-$level"
      isolation_load "$kind" "$level"
    done
  done
  test_intervals
  for kind in "${isolation_kinds[@]}"; do isolation_rows "$kind" "${levels[@]}"; done
  test_row_each "reference: the others' mean time, s" '' 'this("reference") | abiding_mean_s'
}

isolation_scene() { # <name>: the usual load of all four
  local n
  test_scene "$1"
  test_by crowd addresses=64:rate=2%:patience=10
  for n in 1 2 3; do test_load abiding "$n" "site$n" 20 0 100 burn2; done
  test_load own 1 site4 20 0 100 burn2
}

# What makes the fourth site's load so many times its own: the CPU time that its requests
# ask for.  A slow client's connection counts as a request.
isolation_load() { # <kind> <times>
  local more=$((2 * $2 - 2))
  case $1 in
    requests) test_by crowd "rate=$more%:patience=10" ;;                      # from one address
    cpu) test_by crowd "addresses=64:rate=$((more / 10)).$((more % 10))%:patience=10" ;;        # ten times the CPU time each
    slow) test_by crowd "addresses=16000:rate=$more%:patience=10:pause=1" ;;    # a header every second
    network) test_by crowd "addresses=256:rate=$more%:patience=10" ;;           # a /24 network
    swarm) test_by crowd "addresses=16000:rate=$more%:patience=10" ;;
  esac
  case $1 in
    cpu) test_load loud 2 site4 10000 0 100 burn20 ;;
    slow) test_load slow 2 site4 10000 0 100 burn2 ;;
    *) test_load loud 2 site4 10000 0 100 burn2 ;;
  esac
}

isolation_rows() { # <kind> <times>...
  local kind=$1 level bar scenes=''
  for level in "${@:2}"; do
    bar=''
    ((level != 100)) || bar='<= 0.05'
    test_row_each "$kind, $level times: isolation impact I_QoS" "$bar" \
      "isolation_impact(this(\"reference\"); this(\"$kind-$level\"))"
    test_row_each "$kind, $level times: Jain's index" '' "this(\"$kind-$level\") | jain_of_shares"
    test_row_each "$kind, $level times: the others' mean time, s" '' "this(\"$kind-$level\") | abiding_mean_s"
    test_row_each "$kind, $level times: the others' failed part" '' "this(\"$kind-$level\") | abiding_failed"
    scenes+="${scenes:+, }this(\"$kind-$level\")"
  done
  (($# == 2)) || test_row_each "$kind: average impact I_avg" '' "isolation_average(this(\"reference\"); $scenes)"
}
