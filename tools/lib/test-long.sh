# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Requests of site 1 that last long and need no processor, then visitors of the site beside a
# flood of site 2.  Each client of "socket", "events" and "throttled" sends one request and
# keeps its connection until the end of the run: a transaction is a connection that opened, and
# a failure one that was refused or ended.  A long poll is answered after 5 s and repeated.

describe_long() {
  test_summary '200 WebSockets, 200 server-sent events, 60 long polls and 50 throttled downloads of a site, then its visitors beside 150 users of another site'
  test_local 'crowd keeps the connections, and runs on those only'
  test_pages mixed
  test_sites 2
  test_fpm_children 250
  test_idle
  test_samples 10
  test_seconds 60 30 15
  long_scene socket 200 idle hold:upgrade
  long_scene events 200 idle hold
  long_scene throttled 50 throttled hold
  long_scene poll 60 none
}

long_scene() { # <page> <users> <appserver> [<options of crowd>]
  test_scene "$1"
  test_appserver "$3"
  test_by crowd "${@:4}"
  test_load long 1 site1 "$2" 0 100 "$1"
  test_by -
  test_load visitor 1 site1 20 34 100 burn2
  test_load flood 2 site2 150 34 100 burn10
  test_row all "$1: long requests that succeeded / those on plain Apache" '>= 1.0' '>= 1.0' \
    "ratio(this(\"$1\") | site(\"long\").transactions; plain(\"$1\") | site(\"long\").transactions)"
  test_row_plain_failures all long "long requests'" "$1"
  test_row all "$1: slots that the site holds before the flood" '' '' "this(\"$1\") | slots_held(\"long\")"
  test_rows_beside_plain "$1" visitor -- flood
}
