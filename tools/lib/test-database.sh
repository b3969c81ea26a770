# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A site whose pages make the database compute, with 100 users, beside 100 users of another site's
# PHP. Then a site with 20 users of short queries beside 300 users of long ones in the same database.
# CPU time is what the kernel counted for the processes of each site's back ends; in the first scenes
# only one site uses the database.

describe_database() {
  local kind
  test_summary 'a site that computes in MariaDB or PostgreSQL beside one that computes in PHP; short queries beside 300 users of long ones'
  test_pages mixed
  test_sites 2
  test_pools master
  test_fpm_children 40
  test_seconds 60 25 8
  for kind in mariadb postgresql; do
    test_scene "$kind"
    test_appserver "$kind"
    test_load sql 1 site1 100 0 100 sql20
    test_load php 2 site2 100 0 100 burn20
    test_rows_beside_plain "$kind" -- sql php
    test_row all "$kind: part of the back ends' CPU time of the site that computes in the database" '<= 0.53' '<= 0.51' \
      "this(\"$kind\") | ratio(backend_cpu(\"sql\"); backend_cpu(\"sql\") + backend_cpu(\"php\"))"
    test_row all "$kind: the same, at least" '>= 0.47' '>= 0.49' \
      "this(\"$kind\") | ratio(backend_cpu(\"sql\"); backend_cpu(\"sql\") + backend_cpu(\"php\"))"
    test_row all "$kind: CPU time charged to it / that its processes used" '>= 0.95' '>= 0.99' "this(\"$kind\") | charged_of_used(\"sql\")"

    test_scene "$kind-long"
    test_appserver "$kind"
    test_load short 1 site1 20 0 100 sql2
    test_load long 2 site2 300 0 100 sql200
    test_rows_beside_plain "$kind-long" short -- long
  done
}
