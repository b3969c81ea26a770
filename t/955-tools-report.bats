#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# needs: fonts
# bench.sh's report as HTML in a browser, and the comparison of two results.
# shellcheck disable=SC2016  # with_bench expands what it is given
# shellcheck disable=SC2030,SC2031,SC2154  # output and stderr are of bats, within one test

bats_require_minimum_version 1.5.0
load lib/common
load lib/live
load lib/browser

need_gnuplot() { need_program gnuplot; }

setup_file() {
  meets chromium || return 0
  start_browser
}

teardown_file() { end_browser; }

setup() { cd "$BATS_TEST_TMPDIR" || return; }

teardown() { [[ -z ${browser_folder-} ]] || close_page; }

# Runs commands with the functions of bench.sh.
with_bench() { # <commands> <argument>...
  run bash -c 'set -euo pipefail; . "$1/tools/bench.sh"; eval "$2"' bench.sh "$TOP" "$@"
  printf 'status %s\n%s\n' "$status" "$output"
  is "$status" 0
}

# A run as trial.jq writes it.
canned() { # <repetition> <page> <target> <victim's rate> <total>
  jq -nc --argjson repetition "$1" --arg page "$2" --arg target "$3" --argjson victim "$4" --argjson total "$5" '
    def site($name; $role; $rate): { site: $name, role: $role, users: 100, transactions: ($rate * 3), rate: $rate,
      failures: 0, share: ($rate / $total), availability: 100, mean_s: 0.1, longest_s: 0.4, p50_s: 0.1, p99_s: 0.3, waiting: null };
    { repetition: $repetition, page: $page, target: $target, title: ($target | if . == "plain" then "plain Apache" else . end),
      scene: "-", configuration: "VhostLimit <b>On</b>", workers: 400, seconds: 3, keepalive: false,
      sites: [site("site1"; "victim"; $victim), site("site2"; "noisy"; $total - $victim)],
      clients: [{ role: "victim", site: "site1", users: 100, from_s: 0, to_s: 3 }, { role: "noisy", site: "site2", users: 500, from_s: 1, to_s: 3 }],
      total: { rate: $total, failures: 0 }, jain: 0.9, slots: null,
      samples: [range(20) | { at: (. * 0.15), slots: 10, sites: { site1: { requests: (. * 10) }, site2: { requests: (. * 20) } } }],
      commands: ["wrk -c100 http://site1.test/<script>document.title=1</script>"],
      sar: { cpu: { server: { user: 50, system: 45, iowait: 0, steal: 4, idle: 1 }, all: { steal: 3, idle: 20 } },
             idle: [], memory: { used_kb: 100000, used_percent: 10 } } }' >"run-$1-$2-$3.json"
}

# A folder of results of the test noisy. The commands run after test.sh has been read.
result() { # <folder> <victim's rate> <repetitions> [<commands>]
  local n
  rm -f run-*.json
  for ((n = 1; n <= $3; n++)); do
    canned "$n" static plain 100 1000
    canned "$n" static vhostlimit "$(($2 + n))" 1000
  done
  mkdir "$1"
  with_bench 'test_read noisy; '"${4-:}"'; result_write "{\"command\":\"tools/bench.sh <i>noisy\",\"load\":\"wrk 4\",\"mpm\":\"event\",
    \"workers\":400,\"children\":10,\"seconds\":3,\"repeat\":9,\"tuning\":[]}" yes "[]" run-*.json >"$3/result.json"' "$1"
}

report() { # <as result>...
  result "$@"
  with_bench 'html_write "$3/result.json" "$3"' "$1"
}

look_at() { # <folder>
  open_page "file://$PWD/$1/report.html"
}

count_of() { in_page "document.querySelectorAll('$1').length"; }  # <selector>

@test "the report opens without an error, with tables and charts" {
  requires chromium gnuplot mod_mpm_event
  report out 400 3 'test_source "A title, 2000."; test_published static "its rate" 283.7 /s "this | site(\"victim\").rate"'
  look_at out
  is "$(browser_complaints)" '' "complaints of the browser"
  is "$(in_page document.title)" 'noisy: 100 users on one site beside 2 x 500 on its neighbor, static and PHP pages'
  is "$(count_of 'section h2')" 6 "sections"
  is "$(count_of '#answers tbody tr')" 6 "rows of what was asked"
  like "$(in_page 'document.querySelector("#answers tbody tr").textContent')" '^static: victim.*missed0\.804'
  is "$(count_of '#pages table')" 1
  like "$(in_page 'document.querySelector("#pages").textContent')" 'transactions per second'
  is "$(count_of '#published tbody tr')" 2 "a published figure, on two targets"
  like "$(in_page 'document.querySelector("#machine").textContent')" "Linux $(uname -r)"
  like "$(in_page 'document.querySelector("#machine").textContent')" '3\.0 % of the CPU time'
  at_least "$(count_of 'figure svg')" 3 "charts"
  is "$(in_page 'Array.from(document.querySelectorAll("figure svg")).every(s => s.getBoundingClientRect().height > 60 && s.querySelectorAll("path, polygon").length > 3)')" true
  is "$(in_page 'performance.getEntriesByType("resource").length')" 0 "files fetched beside the page"
  like "$(head -c 4 out/report.png | od -An -c)" 'P +N +G'
}

@test "measured texts are escaped in the page" {
  requires chromium gnuplot mod_mpm_event
  report out 400 1
  look_at out
  like "$(in_page 'document.querySelector("#commands details pre").textContent')" '<script>document'
  like "$(in_page 'document.querySelector("#commands > pre").textContent')" 'bench.sh <i>noisy'
  like "$(in_page 'document.querySelector("#machine").textContent')" 'VhostLimit <b>On</b>'
  is "$(count_of 'script, b, i')" 0
}

@test "the page fits a phone and follows the light or dark preference, charts too" {
  requires chromium gnuplot mod_mpm_event
  report out 400 2
  look_at out
  local light dark
  light=$(in_page 'getComputedStyle(document.querySelector("svg text")).fill')
  browser Emulation.setEmulatedMedia '{"features":[{"name":"prefers-color-scheme","value":"dark"}]}' >/dev/null
  dark=$(in_page 'getComputedStyle(document.querySelector("svg text")).fill')
  isnt "$dark" "$light" "a chart's text"
  browser Emulation.setDeviceMetricsOverride '{"width":360,"height":700,"deviceScaleFactor":1,"mobile":true}' >/dev/null
  at_most "$(in_page 'document.documentElement.scrollWidth')" 360 "width of the page"
  is "$(in_page 'Array.from(document.querySelectorAll("body *")).filter(e => !e.closest(".wide, svg") && e.getBoundingClientRect().right > 360).map(e => e.tagName).join(" ")')" '' "elements beyond the edge"
  like "$(in_page 'Array.from(document.querySelectorAll("figcaption")).map(f => f.textContent).join(", ")')" "the server's CPU" "the chart of sar's figures"
  picture report-dark
  in_page 'document.querySelector("figure").scrollIntoView()' >/dev/null
  picture report-charts-dark
  browser Emulation.setEmulatedMedia '{"features":[{"name":"prefers-color-scheme","value":"light"}]}' >/dev/null
  picture report-charts-light
  is "$(browser_complaints)" '' "complaints of the browser"
}

@test "a test's figures are drawn first, with a line for each series and a point for each x" {
  requires gnuplot mod_mpm_event
  report out 400 3 'test_figure "of the <victim>" "repetition" "its rate" .repetition "site(\"victim\").rate" ".target"'
  run jq -c '.figures | map([.title, .page, (.series | map([.name, .points]))])' out/result.json
  is "$output" '[["of the <victim>","static",[["plain",[[1,100,100,100],[2,100,100,100],[3,100,100,100]]],["vhostlimit",[[1,401,401,401],[2,402,402,402],[3,403,403,403]]]]]]'
  like "$(grep -m1 -A3 '<figure>' out/report.html)" 'of the &lt;victim&gt;'
}

compared() { # <folder> <folder>
  run --separate-stderr "$TOP/tools/bench.sh" --compare "$@"
  printf 'status %s\n%s\n%s\n' "$status" "$output" "$stderr"
}

@test "--compare: differences beyond the spread are marked" {
  requires mod_mpm_event
  result slow 300 3
  result fast 400 3
  compared slow fast
  is "$status" 0
  like "$output" 'site1 victim: per second +302\.0 +301\.0\.\.303\.0 +402\.0 +401\.0\.\.403\.0 +1\.331 +more, outside the noise'
  like "$output" 'site2 noisy: per second .* less, outside the noise'
  like "$output" 'all sites, per second +1000\.0 .* 1\.000 +within the noise'
  compared fast fast
  like "$output" 'site1 victim: per second .* 1\.000 +within the noise'
  result few 400 2
  compared slow few
  like "$output" 'site1 victim: per second .* too few runs to say'
}

of_build() { # <folder> <jq filter>: a result of the described build, changed by the filter
  jq '.build = ({ version: "0.1.0", commit: "0123456789abcdef", dirty: false, source_sha256: "s1", configure: "",
    cflags: "-g -O2", compiler: "gcc 12", module_sha256: "m1" } | '"$2"')' good/result.json >"$1/result.json"
}

@test "--compare: the builds are compared" {
  requires mod_mpm_event
  result good 300 1
  mkdir a b
  of_build a .
  of_build b .
  compared a b
  like "$output" 'module 0\.1\.0, commit 0123456789ab; gcc 12, CFLAGS -g -O2; SHA-256 m1'
  like "$output" 'Both measured the same build of the module\.'
  of_build b '.module_sha256 = "m2" | .commit = "fff" | .dirty = true'
  compared a b
  like "$output" 'two builds of the same sources with the same compiler and flags'
  like "$output" 'commit fff with uncommitted changes'
  of_build b '.module_sha256 = "m2" | .source_sha256 = "s2" | .cflags = "-O0"'
  compared a b
  like "$output" 'The results come from different builds of the module: the sources differ, the flags differ\.'
  compared a good
  like "$output" 'One of the two results does not say which build of the module it measured\.'
  compared good good
  is "$(grep -c build <<<"$output" || true)" 0 'lines about builds'
}

not_compared() { # <words>
  compared good bad
  is "$status" 3
  is "$output" ''
  is "$(wc -l <<<"$stderr")" 1 "lines on stderr"
  [[ $stderr == *"$1"* ]] || fail "not on stderr: $1"
}

@test "--compare: a foreign or truncated folder is rejected with the reason" {
  requires mod_mpm_event
  result good 300 1
  not_compared 'bad is not a folder'
  mkdir bad
  not_compared 'bad has no result.json'
  local size
  size=$(stat -c %s good/result.json)
  for cut in 0 1 $((size / 2)) $((size - 3)); do
    head -c "$cut" good/result.json >bad/result.json
    not_compared 'bad/result.json is not complete'
  done
  echo '{"name":"npm"}' >bad/result.json
  not_compared 'is not a result of bench.sh'
  echo '{"schema":1}' >bad/result.json
  not_compared 'has schema 1'
  jq 'del(.runs[0].total)' good/result.json >bad/result.json
  not_compared 'lacks parts'
  jq '.test = "alone"' good/result.json >bad/result.json
  not_compared 'the results are of different tests: noisy and alone'
  compared good
  is "$status" 2
  compared good good good
  is "$status" 2
}
