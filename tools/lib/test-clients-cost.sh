# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The cost of VhostLimitClients, which is On by default, against Off: where no request waits
# and where many do.  The rows of plain Apache compare two equal runs: what they differ by
# is noise.  A bar of 1 % needs more repetitions than three (--repeat 9).

describe_clients-cost() {
  local load mode
  test_summary 'throughput with VhostLimitClients On and Off: three sites with four users each, and 100 users beside 2 x 500 of another site'
  test_pages static,php
  for load in light noisy; do
    for mode in On Off; do
      test_scene "$load-$mode"
      test_line "VhostLimitClients $mode"
      "clients_cost_$load"
    done
    test_row all "$load: throughput with On / with Off" '>= 0.99' '>= 1.0' \
      "ratio(this(\"$load-On\") | .total.rate; this(\"$load-Off\") | .total.rate)"
    test_row all "$load: the same on plain Apache, twice the same" '' '' \
      "ratio(plain(\"$load-On\") | .total.rate; plain(\"$load-Off\") | .total.rate)"
    test_row all "$load: total / plain Apache's total" '' '' \
      "ratio(this(\"$load-On\") | .total.rate; plain(\"$load-On\") | .total.rate)"
    test_row all "$load: all failures" '= 0' '= 0' "this(\"$load-On\") | .total.failures"
  done
}

clients_cost_light() {
  test_load light 1 site1 4
  test_load light 2 site2 4
  test_load light 3 site3 4
}

clients_cost_noisy() {
  test_load victim 1 site1 100
  test_load noisy 2 site2 500
  test_load noisy 3 site2 500
}
