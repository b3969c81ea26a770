# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The cost of VhostLimitSandbox for a program that is started for each request: with few
# connections, and with many streams.

describe_sandbox() {
  local scene of
  test_summary 'h2load on a hello-world CGI: without a sandbox, VhostLimitSandbox Full and Files, and bubblewrap'
  test_targets vhostlimit,sandbox-full,sandbox-files,bubblewrap
  test_pages hello-cgi
  test_tls
  test_scene c10
  test_by h2load 1
  test_load users 1 site1 10
  test_scene c100-m10
  test_line 'VhostLimitQueue 10000 60s'
  test_by h2load 10
  test_load users 1 site1 1000
  for scene in c10 c100-m10; do
    printf -v of 'ratio(this("%s") | .total.rate; with("vhostlimit"; "%s") | .total.rate)' "$scene" "$scene"
    test_row all@sandbox-full "$scene: rate / that without a sandbox" '>= 0.95' '>= 0.98' "$of"
    test_row all@sandbox-files "$scene: rate / that without a sandbox" '>= 0.98' '' "$of"
    test_row all@bubblewrap "$scene: rate / that without a sandbox" '' '' "$of"
    test_row all "$scene: failures" '= 0' '= 0' "this(\"$scene\") | .total.failures"
  done
}
