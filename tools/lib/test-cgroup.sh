# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The cost of the cgroup tree for requests that do not need it.

describe_cgroup() {
  local scene
  test_summary 'static pages of two sites with 100 users each: throughput with and without cgroups'
  test_targets vhostlimit
  for scene in cgroups off; do
    test_scene "$scene"
    [[ $scene != off ]] || test_line 'VhostLimitCgroup off'
    test_load even 1 site1 100
    test_load even 2 site2 100
  done
  test_row all 'throughput with cgroups / with VhostLimitCgroup off' '>= 0.98' '>= 1.0' \
    'ratio(this("cgroups") | .total.rate; this("off") | .total.rate)'
}
