# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The table in README.md: the test noisy over HTTP/1.1, over kept HTTPS and over HTTP/2,
# with the alternatives that share or limit per site.  The targets are shown side by side.
# It has no bars; those are in the tests noisy, tls and http2.

describe_overview() {
  local scene
  test_summary 'the table of README.md: a flooded neighbor over HTTP/1.1, kept HTTPS and HTTP/2, static and PHP pages; rivals alike'
  test_targets plain,vhostlimit,mod_qos,haproxy
  test_pages static,php
  test_scene http1-close
  overview_loads wrk
  test_scene https-kept
  test_tls
  test_keepalive
  overview_loads wrk
  test_scene http2
  test_tls
  overview_loads h2load
  test_side_by_side
  for scene in http1-close https-kept http2; do overview_rows "$scene"; done
}

overview_loads() { # <wrk | h2load>: over HTTP/2 users are streams, as in the test http2
  local few=$1 many=$1
  [[ $1 != h2load ]] || few+=' 10' many+=' 20'
  # shellcheck disable=SC2086  # words
  test_by $few
  test_load victim 1 site1 100
  # shellcheck disable=SC2086
  test_by $many
  test_load noisy 2 site2 500
  test_load noisy 3 site2 500
}

overview_rows() { # <scene>
  test_row_each "$1: victim, responses/s" '' "this(\"$1\") | site(\"victim\").rate"
  test_row_each "$1: all sites, responses/s" '' "this(\"$1\") | .total.rate"
  test_row_each "$1: victim's share, %" '' "this(\"$1\") | site(\"victim\").share * 100"
  test_row_each "$1: victim's 99th percentile, ms" '' "this(\"$1\") | site(\"victim\").p99_s | values * 1000"
  test_row_each "$1: failed requests, %" '' "this(\"$1\") | .total | ratio(100 * .failures; .transactions + .failures)"
  test_row_each "$1: server's CPU time of a response, us" '' \
    "this(\"$1\") | ratio((100 - .sar.cpu.server.idle - .sar.cpu.server.steal) * 1e4 * .server_cpus; .total.rate)"
}
