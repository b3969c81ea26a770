# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The cost of a request with many virtual hosts.  The busy one is the first: Apache itself
# searches names from the first on, which is not measured here.

describe_vhosts() {
  local n
  test_summary 'throughput of one site, the first of 10, 1000 and 10000 configured virtual hosts'
  test_samples 0
  for n in 10 1000 10000; do
    test_scene "vhosts-$n"
    test_vhosts "$n"
    test_load busy 1 site1 100
  done
  for n in 1000 10000; do
    test_row all "throughput with $n vhosts / with 10" '>= 0.95' '>= 1.0' \
      "ratio(this(\"vhosts-$n\") | .total.rate; this(\"vhosts-10\") | .total.rate)"
    test_row all "the same on plain Apache" '' '' \
      "ratio(plain(\"vhosts-$n\") | .total.rate; plain(\"vhosts-10\") | .total.rate)"
  done
}
