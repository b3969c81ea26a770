# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The cost of isolation for a program that is started for each request.

describe_cgi() {
  local scene
  test_summary 'h2load on a hello-world CGI: plain Apache, with the module, each CGI in bubblewrap'
  test_targets plain,vhostlimit,bubblewrap
  cgi_scenes
  for scene in c10 c100-m10; do
    test_row all@vhostlimit "$scene: rate / that of plain Apache" '>= 0.97' '>= 1.0' "$(cgi_ratio "$scene")"
    test_row all@bubblewrap "$scene: rate / that without a sandbox" '' '' "$(cgi_ratio "$scene")"
  done
  cgi_published c10 761 613 145
  cgi_published c100-m10 799 628 89
}

# The scenes of the published test: few connections, and many streams.
cgi_scenes() {
  test_pages hello-cgi
  test_keepalive
  test_tls
  test_scene c10
  test_requests 10000 2000 200
  test_by h2load 1
  test_load users 1 site1 10
  test_scene c100-m10
  test_requests 100000 4000 400
  test_line 'VhostLimitQueue 10000 60s'
  test_by h2load 10
  test_load users 1 site1 1000
}

cgi_ratio() { printf 'ratio(this("%s") | .total.rate; plain("%s") | .total.rate)' "$1" "$1"; } # <scene>

cgi_published() { # <scene> <rate without, in namespaces, in bubblewrap>
  local share
  test_source '"Performance Testing Namespaces", LiteSpeed Blog, 21 February 2024: OpenLiteSpeed on another machine, without a sandbox, in persistent namespaces and in bubblewrap.'
  test_published all@plain "$1: rate" "$2" /s "this(\"$1\") | .total.rate"
  test_published all@bubblewrap "$1: rate" "$4" /s "this(\"$1\") | .total.rate"
  printf -v share '0.%04d' $((10000 * $3 / $2))
  test_published all@vhostlimit "$1: rate / plain, theirs in namespaces" "$share" '' "$(cgi_ratio "$1")"
  printf -v share '0.%04d' $((10000 * $4 / $2))
  test_published all@bubblewrap "$1: rate / plain" "$share" '' "$(cgi_ratio "$1")"
}
