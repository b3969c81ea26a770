# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A site whose pages wait beside one whose pages compute.  Waiting pages use no processor, so
# the module must not make them wait longer than plain Apache does.  Scenes differ by the back
# end of PHP, which in "container" is in another network namespace for the waiting site, by the time that
# a page waits, and by what the other site does.  In "turn" the waiting site begins to compute in the
# middle of the run.  In "long" no page waits: those of one site compute for 3 s each, and few
# of them end within a run, so CPU time is compared.

describe_waiting() {
  local scene
  test_summary 'pages that wait 100 ms beside pages that compute 10 ms, on PHP-FPMs of several kinds; pages that begin to compute; pages that compute for 3 s'
  test_pages mixed
  test_sites 2
  test_fpm_children 100
  test_local 'one of them runs a back end'
  test_idle
  test_seconds 60 25 6
  for scene in shared master own; do
    waiting_scene "$scene" "$scene" wait100
  done
  waiting_scene second master wait1000
  waiting_scene container shared wait100
  test_appserver container
  for scene in shared master own second container; do
    test_rows_beside_plain "$scene" waiting computing
  done

  test_scene static
  test_pools master
  test_load waiting 1 site1 100 0 100 wait200
  test_load static 2 site2 200 0 100 static
  test_rows_beside_plain static waiting -- static

  test_scene turn
  test_pools master
  test_load waiting 1 site1 100 0 50 wait100
  test_load turned 1 site1 100 50 100 burn10
  test_load neighbor 2 site2 40 0 50 burn10
  test_load later 2 site2 40 50 100 burn10
  test_rows_beside_plain turn neighbor later -- waiting turned
  test_row all "turn: neighbor's p99 from then on / before" '<= 3' '<= 2' \
    'this("turn") | ratio(load("later").p99_s; load("neighbor").p99_s)'

  test_scene long
  test_pools master
  test_cold
  test_load long 1 site1 20 0 100 burn3000
  test_load short 2 site2 20 0 100 burn10
  test_rows_beside_plain long short
  test_row all "long: long site's CPU time / that on plain Apache" '' '' \
    'ratio(this("long") | backend_cpu("long"); plain("long") | backend_cpu("long"))'
  test_row all "long: short site's part of the back ends' CPU time" '>= 0.45' '>= 0.5' \
    'this("long") | ratio(backend_cpu("short"); backend_cpu("short") + backend_cpu("long"))'
}

waiting_scene() { # <name> <pools> <page>
  test_scene "$1"
  test_pools "$2"
  test_load waiting 1 site1 40 0 100 "$3"
  test_load computing 2 site2 40 0 100 burn10
}
