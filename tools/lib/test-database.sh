# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sites that share a database.  A site whose pages make it compute beside one that computes in PHP, also
# with kept connections, and with one pool for both; pages that wait in it beside pages that compute;
# short queries, and WordPress, beside 300 users of long ones.  CPU time is what the kernel counted.

describe_database() {
  local kind
  test_summary 'sites that share MariaDB or PostgreSQL: one computes in it, or waits in it; short queries and WordPress beside 300 users of long ones'
  test_rivals user-connections
  test_pages mixed
  test_sites 2
  test_fpm_children 40
  test_idle
  test_seconds 60 25 8
  for kind in mariadb postgresql; do
    database_beside_php "$kind"
    database_long "$kind"
    database_kept "$kind"
    database_shared "$kind"
    database_waits "$kind"
    database_waits "$kind" shared
  done
  database_wordpress
  database_many
}

database_scene() { # <scene> <kind> [<pools>]
  test_scene "$1"
  test_appserver "$2"
  test_pools "${3-master}"
}

database_beside_php() { # <kind>
  database_scene "$1" "$1"
  test_load sql 1 site1 100 0 100 sql20
  test_load php 2 site2 100 0 100 burn20
  test_rows_beside_plain "$1" -- sql php
  test_row all "$1: part of the back ends' CPU time of the site that computes in the database" '<= 0.53' '<= 0.51' \
    "this(\"$1\") | ratio(backend_cpu(\"sql\"); backend_cpu(\"sql\") + backend_cpu(\"php\"))"
  test_row all "$1: the same, at least" '>= 0.47' '>= 0.49' \
    "this(\"$1\") | ratio(backend_cpu(\"sql\"); backend_cpu(\"sql\") + backend_cpu(\"php\"))"
  database_charged "$1" false 0.95 1.05 0.99 1.01
}

# All that is charged for back ends / what the kernel counted.
database_charged() { # <scene> <true | false: one pool> <bar: least> <most> <goal: least> <goal: most>
  test_row all "$1: CPU time charged / that the back ends used" ">= $3" ">= $5" "this(\"$1\") | charged_of_all($2)"
  test_row all "$1: the same, at most" "<= $4" "<= $6" "this(\"$1\") | charged_of_all($2)"
}

database_long() { # <kind>
  database_scene "$1-long" "$1"
  test_load short 1 site1 20 0 100 sql2
  test_load long 2 site2 300 0 100 sql200
  test_rows_beside_plain "$1-long" short -- long
}

database_kept() { # <kind>
  database_scene "$1-kept" "$1"
  test_load dear 1 site1 40 0 100 sql20kept
  test_load cheap 2 site2 40 0 100 sql2kept
  test_rows_beside_plain "$1-kept" -- dear cheap
  database_charged "$1-kept" false 0.9 1.1 0.95 1.05
}

database_shared() { # <kind>
  database_scene "$1-shared" "$1" shared
  test_load dear 1 site1 40 0 100 sql20
  test_load cheap 2 site2 40 0 100 sql2
  test_rows_beside_plain "$1-shared" -- dear cheap
  database_charged "$1-shared" true 0.9 1.1 0.95 1.05
}

database_waits() { # <kind> [shared]
  database_scene "$1-waits${2+-$2}" "$1" "${2-master}"
  test_load waiting 1 site1 40 0 100 sqlwait100
  test_load computing 2 site2 40 0 100 burn10
  test_rows_beside_plain "$1-waits${2+-$2}" waiting computing
}

# The fair share of a site is half of what it gets alone with as many users as the server can serve.
database_wordpress() {
  database_scene wordpress-alone wordpress
  test_load victim 1 site1 20 0 100 wordpress
  database_scene wordpress wordpress
  test_load victim 1 site1 20 0 100 wordpress
  test_load long 2 site2 300 0 100 sql200
  test_rows_beside_plain wordpress victim -- long
  test_row all 'wordpress: rate / half of that alone on plain Apache' '>= 0.9' '>= 0.95' \
    'ratio(this("wordpress") | site("victim").rate; plain("wordpress-alone") | site("victim").rate / 2)'
  test_row all 'wordpress: p99 / that alone on plain Apache' '<= 3' '<= 2' \
    'ratio(this("wordpress") | site("victim").p99_s; plain("wordpress-alone") | site("victim").p99_s)'
}

# 40 pages at once with 13 connections each, which send 10 queries a second.
database_many() {
  database_scene many mariadb
  test_load many 1 site1 40 0 100 sqlmany13
  test_rows_beside_plain many many
  test_row all "many: queries a second on 520 connections" '' '' '130 * (this("many") | site("many").rate)'
  test_row all "many: CPU time of the sampler, % of one processor" '<= 1' '<= 0.3' \
    'this("many") | .usage | 100 * ratio(growth(.sampler); growth(.at) * 1e6)'
}
