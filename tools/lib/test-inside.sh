# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The visitors of a site beside a flood of the same site.

describe_inside() {
  test_summary '10 visitors of a site beside one client of the same site with 1000 connections'
  inside_alone
  inside_flood flood
}

inside_alone() {
  test_pages static,php
  test_idle
  test_scene alone
  test_load visitor 2 site1 10
}

# A scene with visitors and flood, and its rows.  The generator of the flood may be another
# one than that of the visitors.  wrk does not count the time of a connection and its
# handshake, in which a new connection over TLS waits: p99 over TLS is of kept ones.
inside_flood() { # <scene> [<as test_by>...]
  local scene=$1 visitors="visitors'" by=$test_by_now timed=all
  [[ -z ${test[tls]-} || $by != - ]] || timed=all:keepalive
  test_scene "$scene"
  test_load visitor 2 site1 10
  (($# < 2)) || test_by "${@:2}"
  test_load flood 1 site1 1000
  test_by "$by"
  test_row_of "$scene" all "$visitors rate / their share: half of plain Apache's total, or their rate alone if that is less" \
    '>= 0.95' '>= 1.0' "ratio(this(\"$scene\") | site(\"visitor\").rate; [(plain(\"$scene\") | .total.rate / 2), (this(\"alone\") | site(\"visitor\").rate)] | min)"
  test_row_of "$scene" "$timed" "$visitors p99 / their p99 alone" '<= 3' '<= 2' \
    "ratio(this(\"$scene\") | site(\"visitor\").p99_s; this(\"alone\") | site(\"visitor\").p99_s)"
  test_row_of "$scene" "$timed" "the same on plain Apache" '' '' \
    "ratio(plain(\"$scene\") | site(\"visitor\").p99_s; plain(\"alone\") | site(\"visitor\").p99_s)"
  test_row_plain all visitor "$visitors" rate "$scene"
  test_row_plain "$timed" visitor "$visitors" p99 "$scene"
  test_row_total all '>= 0.95' '>= 1.0' "$scene"
  test_row_plain_failures all visitor "$visitors" "$scene"
  test_row_of "$scene" all "failures of the flood" '= 0' '= 0' "this(\"$scene\") | site(\"flood\").failures"
}
