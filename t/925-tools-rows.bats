#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Descriptions of bench.sh's tests, and the rows computed from runs.
# shellcheck disable=SC2016  # with_bench expands what it is given
# shellcheck disable=SC2030,SC2031  # output is set and read within one test

TOP=$(cd -- "$BATS_TEST_DIRNAME/.." && pwd)

setup() { cd "$BATS_TEST_TMPDIR" || return; }

# Runs commands with the functions of bench.sh.
with_bench() { # <commands> <argument>...
  run bash -c 'set -euo pipefail; . "$1/tools/bench.sh"; eval "$2"' bench.sh "$TOP" "$@"
  printf 'status %s\n%s\n' "$status" "$output"
  [ "$status" -eq 0 ]
}

is() { # <jq filter> <want>
  local got
  got=$(jq -c "$1" <<<"$output")
  printf '%s: got %s, want %s\n' "$1" "$got" "$2"
  [ "$got" = "$2" ]
}

# A run of the noisy test as trial.jq writes it, with the values that rows use.
canned() { # <repetition> <page> <target> <victim's rate> <total> <p99> <failures> [keepalive]
  jq -nc --argjson repetition "$1" --arg page "$2" --arg target "$3" --argjson victim "$4" \
    --argjson total "$5" --argjson p99 "$6" --argjson failures "$7" --argjson keepalive "${8-false}" '
    { repetition: $repetition, page: $page, target: $target, title: $target, scene: "-", keepalive: $keepalive,
      sites: [{ site: "site1", role: "victim", rate: $victim, p99_s: $p99 },
              { site: "site2", role: "noisy", rate: ($total - $victim), p99_s: null }],
      total: { rate: $total, failures: $failures }, clients: [], samples: [], sar: { idle: [] } }' >"run-$1-$2-$3.json"
}

rows_of() { # <test> <run.json>...
  with_bench "test_read $1; rows_json ${*:2}"
}

row() { printf '.[] | select(.page == "%s" and .name == "%s")' "$1" "$2"; }   # <page> <name>

victims="victim's rate / half of plain Apache's total"

@test "a ratio is computed within a repetition; median and spread are of the ratios" {
  canned 1 static plain 100 1000 0.5 0; canned 1 static vhostlimit 400 1000 0.1 0    # 0.8
  canned 2 static plain 100 2000 0.5 0; canned 2 static vhostlimit 900 2000 0.1 0    # 0.9
  canned 3 static plain 100 100 0.5 0;  canned 3 static vhostlimit 60 100 0.1 0      # 1.2
  rows_of noisy run-*.json
  is "$(row static "$victims") | [.values, .median, .min, .max]" '[[0.8,0.9,1.2],0.9,0.8,1.2]'
  is "$(row static "$victims") | [.bar_met, .goal_met, .bar]" '[false,false,">= 0.95"]'
  is "$(row static "victim's p99 / its p99 on plain Apache") | [.median, .bar_met, .goal_met]" '[0.2,true,true]'
}

@test "the median of an even number of repetitions is the mean of the middle two" {
  canned 1 php plain 100 1000 1 0; canned 1 php vhostlimit 480 1000 1 0
  canned 2 php plain 100 1000 1 0; canned 2 php vhostlimit 500 1000 1 0
  rows_of noisy run-*.json
  is "$(row php "$victims") | [.median, .bar_met, .goal_met]" '[0.98,true,false]'
}

@test "a value that must be zero must be zero in every repetition" {
  for n in 1 2 3; do
    canned "$n" php plain 100 1000 1 9
    canned "$n" php vhostlimit 500 1000 1 "$((n == 2))"
  done
  rows_of noisy run-*.json
  is "$(row php 'failures of either site') | [.median, .max, .bar_met]" '[0,1,false]'
}

@test "a row applies to its pages and kinds of connection" {
  canned 1 static plain 100 1000 1 0 true; canned 1 static vhostlimit 460 1000 1 0 true
  rows_of noisy run-*.json
  is 'map(.bar)' '[">= 1.0",">= 1.0",">= 0.95",">= 0.95","<= 6","<= 1","= 0"]'
}

@test "a row without a measured value is neither met nor missed" {
  canned 1 static vhostlimit 460 1000 null 0
  rows_of noisy run-*.json
  is "$(row static "$victims") | [.values, .median, .bar_met]" '[[],null,null]'
  canned 1 static plain 0 0 null 0
  rows_of noisy run-*.json
  is "$(row static "$victims") | [.values, .median, .bar_met]" '[[],null,null]'
  is "$(row static 'failures of either site') | .bar_met" true
}

@test "repeated runs become one run of medians" {
  printf '%s\n' '{"a":{"b":[1,10]},"t":"x","n":null}' '{"a":{"b":[3,30]},"t":"x","n":5}' '{"a":{"b":[2,20]},"t":"x","n":7}' >runs
  run jq -sc -L "$TOP/tools/lib" 'include "rows"; medians' runs
  is . '{"a":{"b":[2,20]},"t":"x","n":6}'
}

# The victim has a tenth of the admitted requests from second 1, when the flood starts, to
# the given second, and half from then on; a sample every 50 ms. In the first seconds of
# the flood, if any are given, it has half as well.
flooded_until() { # <second> <word of rows.jq> [seconds]
  run jq -nc --argjson until "$1" --argjson spared "${3-0}" -L "$TOP/tools/lib" "
    include \"rows\";
    { clients: [{ role: \"victim\", from_s: 0, to_s: 6 }, { role: \"noisy\", from_s: 1, to_s: 6 }],
      sites: [{ site: \"site1\", role: \"victim\" }],
      samples: [range(121) | (. * 0.05) as \$t
        | ([\$t - 1, 0] | max) as \$flood | ([\$t - \$until, 0] | max) as \$late
        | ([\$flood, \$spared] | min + \$late) as \$fair
        | { at: \$t,
            sites: { site1: { requests: (1000 + 100 * \$flood + 400 * \$fair) },
                     site2: { requests: (900 * \$flood - 400 * \$fair) } } }] } | $2"
  printf '%s\n' "$output"
}

@test "recovery is the time from the flood's start until the victim keeps its share" {
  flooded_until 2 'until_share("victim")'
  is '. > 0.75 and . < 1.1' true
  flooded_until 1 'until_share("victim")'
  is '. < 0.06' true
  flooded_until 2 'until_share("victim")' 0.5
  is '. > 0.75 and . < 1.1' true
}

@test "a victim that never gets its share recovers at the end of the run" {
  flooded_until 9 'until_share("victim")'
  is '. > 4.9' true
}

# Two sites on one pool for 20 s: 1000 requests of 2 ms, 250 of 20 ms, and 8.25 s of CPU in
# all, so 1 ms per request besides. The threads use 0.5 ms per request.
shared_pool() { # <word of rows.jq>
  run jq -nc -L "$TOP/tools/lib" "
    include \"rows\";
    { clients: [{ role: \"cheap\", site: \"site1\", page: \"burn2\", transactions: 1000, from_s: 0, to_s: 20 },
                { role: \"dear\", site: \"site2\", page: \"burn20\", transactions: 250, from_s: 0, to_s: 20 }],
      sites: [{ site: \"site1\", role: \"cheap\" }, { site: \"site2\", role: \"dear\" }],
      samples: [{ at: 1, sites: { site1: { requests: 100, cpu_us: 7000, backend_us: 0 }, site2: { requests: 10, cpu_us: 9000, backend_us: 5000 } } },
                { at: 19, sites: { site1: { requests: 900, cpu_us: 407000, backend_us: 200000 }, site2: { requests: 210, cpu_us: 109000, backend_us: 305000 } } }],
      usage: [range(21) | { at: ., pool: (1000000 + . * 412500),
        sites: { site1: null, site2: ([., 15] | min * 240000) } }] } | $1"
  printf '%s\n' "$output"
}

@test "CPU shares on a shared pool include the pages, the pool's other work and the threads" {
  shared_pool '[pool_cpu("cheap"), pool_cpu("dear")]'
  is . '[3500000,5375000]'
  shared_pool '[cpu("cheap"), cpu_share("cheap")]'
  is . '[600000,0.6]'
  shared_pool 'pool_share("cheap") * 1000 | round'
  is . 394
}

@test "a site's CPU in each stretch of ten seconds is read from its group" {
  shared_pool '[cpu_used("dear"; 10)] | [length, max, min] | map(. * 100 | round)'
  is . '[1100,2400,1200]'
  shared_pool '[cpu_used("dear"; 99)]'
  is . '[18]'
  shared_pool '[cpu_used("cheap"; 10)]'
  is . '[]'
}

@test "charged CPU time is compared with what the kernel counted, whatever the times of their samples" {
  shared_pool '.usage |= map(.backends = { site1: (.at * 100000), site2: null })
    | .samples[0].sites.site1.charged_us = 1000 | .samples[1].sites.site1.charged_us = 901000
    | [backend_cpu("cheap"), charged_of_used("cheap")]'
  is . '[100000,0.5]'
  shared_pool '.usage |= map(.backends = { site1: null, site2: null }) | [backend_cpu("cheap"), charged_of_used("cheap")]'
  is . '[]'
}

@test "slots that a site holds are those before the last loads begin" {
  shared_pool '.clients[1].from_s = 5 | .samples = [range(10) | { at: ., sites: { site1: { slots: (. * 2) } } }] | slots_held("cheap")'
  is . 8
}

@test "a line of CPU times has PHP-FPM, the sampler, the groups of the sites and the processes of the sites" {
  run jq -nc -L "$TOP/tools/lib" 'include "result"; "7.5 100 50 null 20 30 null" | usage'
  is . '{"at":7.5,"pool":100,"sampler":50,"sites":{"site1":null,"site2":20},"backends":{"site1":30,"site2":null}}'
}

@test "lines of the module inside a site are those of all scenes and of the scene" {
  with_bench 'test=(); test_site site1 "A 1"; test_scene few; test_site site1 "B 2"; test_site site2 "C 3"; test_scene none
    test_lines few; test_lines none'
  [ "$output" = $'site1: A 1\nsite1: B 2\nsite2: C 3\nsite1: A 1' ]
}

# Three servers for 16 s, a sample of each twice a second. From second 4 on, "b" is on the third
# one and gets there the given part of its CPU time. The first one has 0.2 CPUs, the others 0.3.
# The store dies at 5 and answers again at 10; the leases of server N end N - 1 seconds after
# that, and are back half a second later each.
fleet_run() { # <part of b> <word of rows.jq>
  run jq -nc --argjson part "$1" -L "$TOP/tools/lib" "
    include \"rows\";
    def state(\$web): if . >= 4 + \$web and . < 10 + \$web / 2 then \"lapsed\" else \"held\" end;
    { clients: [{ role: \"a\", site: \"site1\", client: 1, from_s: 0, to_s: 16 }, { role: \"a\", site: \"site1\", client: 2, from_s: 0, to_s: 16 },
                { role: \"a\", site: \"site1\", client: 3, from_s: 0, to_s: 16 }, { role: \"b\", site: \"site2\", client: 3, from_s: 4, to_s: 16 }],
      sites: [{ site: \"site1\", role: \"a\" }, { site: \"site2\", role: \"b\" }],
      fleet: {
        events: [{ at: 5, what: \"killed\" }, { at: 10, what: \"answers\" }],
        daemons: [{ rows: 4 }, { rows: 4 }, { rows: 3 }],
        meter: [range(17) | { at: ., store: (if . == 7 then { in: null, out: null } else { in: (. * 30000), out: (. * 60000) } end),
          webs: [range(1; 4) as \$web | { cpu_us: (. * 100000 * \$web), daemon_us: (. * 500 * \$web) }] }],
        samples: [range(33) | (. / 2) as \$t | ([\$t - 4, 0] | max) as \$both | range(1; 4) as \$web
          | (if \$web == 1 then 200000 else 300000 end) as \$cpus
          | (if \$web == 3 then \$both * \$cpus * \$part else 0 end) as \$b
          | { at: \$t, \$web, state: (\$t | state(\$web)),
              sites: { site1: { charged_us: (\$t * \$cpus - \$b) }, site2: { charged_us: \$b } } }] } } | $2"
  printf '%s\n' "$output"
}

@test "the part of a site of a fleet is compared with the fair one" {
  fleet_run 1 '[fleet_off("b"; 3), fleet_due("b"; 3)] | map(. * 1000 | round)'
  is . '[0,375]'                # it fairly has all of the third server: 0.3 of 0.8
  fleet_run 0.8 '[fleet_off("b"; 3), fleet_off_most("b"; 3)] | map(. * 10 | round)'
  is . '[75,75]'
  fleet_run 0.8 '[fleet_used_by("a"; 3), fleet_kernel("a"; 3)] | map(round)'
  is . '[58,60]'
}

@test "the times of a store's failure are those of the slowest server" {
  fleet_run 1 '[until_lapsed, until_held]'
  is . '[2,1.5]'
  fleet_run 1 '.fleet.samples |= map(.state = "held") | [until_lapsed]'
  is . '[11]'                   # they never ended
  fleet_run 1 '.fleet.events = [] | [until_lapsed]'
  is . '[]'
}

@test "a daemon's cost is that of the busiest one, and is measured without the store too" {
  fleet_run 1 '[daemon_cpu, daemon_traffic, daemon_rows]'
  is . '[0.15,0.24,3]'
}

@test "a site that got no response has no percentile, and the other rows have their values" {
  canned 1 static haproxy 0 1000 null 0
  jq -c '.scene = "http2" | .sites[].share = 0 | .server_cpus = 1 | .sar.cpu.server = { idle: 0, steal: 0 }' run-*.json >run.json
  rows_of overview run.json
  is "$(row static "http2: victim's 99th percentile, ms") | .median" null
  is "$(row static "http2: server's CPU time of a response, us") | .median" 1000
}

@test "rows may compare with any target, and that target has no row" {
  canned 1 static plain-best 100 800 1 0
  canned 1 static vhostlimit 400 1000 1 0
  with_bench 'test=(); test_rows=()
    test_row all aggregate "> 1" "" "ratio(this | .total.rate; with(\"plain-best\"; \"-\") | .total.rate)"
    rows_json run-*.json'
  is 'map([.target, .values, .bar_met])' '[["vhostlimit",[1.25],true]]'
  canned 1 static plain-best 100 1000 1 0
  with_bench 'test=(); test_rows=()
    test_row all aggregate "> 1" "" "ratio(this | .total.rate; with(\"plain-best\"; \"-\") | .total.rate)"
    rows_json run-*.json'
  is 'map(.bar_met)' '[false]'
}

# ---- the isolation test --------------------------------------------------------------

# The runs of one round as trial.jq writes them: three abiding sites with 10 requests a second
# in 10 s, site 4 with as many, in the second run with more.
isolation_runs() { # <mean s of the abiding sites, disturbed> <refused> <begun by the loud load> <its page> [good [role]]
  jq -nc --argjson mean "$1" --argjson refused "$2" --argjson begun "$3" --arg page "$4" --argjson good "${5-0}" --arg role "${6-loud}" '
    def load($site; $role; $page; $begun; $good; $mean; $refused):
      { site: $site, role: $role, page: $page, seconds: 10, begun: $begun, transactions: $good, mean_s: $mean,
        timed: ($begun - $refused), untimed: $refused, failures: $refused };
    def usual($means; $refused): [range(3) as $i | load("site\($i + 1)"; "abiding"; "burn2"; 100; 100 - $refused; $means[$i]; $refused)]
      + [load("site4"; "own"; "burn2"; 100; 100; 0.02; 0)];
    { ref: { capacity: 500, clients: usual([0.01, 0.02, 0.03]; 0) },
      disr: { capacity: 500, clients: (usual($mean; $refused) + [load("site4"; $role; $page; $begun; $good; null; 0)]) } }' >runs
}

of_isolation() { # <filter>
  run jq -c -L "$TOP/tools/lib" "include \"isolation\"; .ref as \$ref | .disr as \$disr | $1" runs
  printf '%s\n' "$output"
}

@test "isolation: the impact is the relative loss of the others by the relative load of all" {
  isolation_runs '[0.02, 0.04, 0.06]' 0 9900 burn2
  of_isolation '[$ref, $disr | load_ms]'
  is . '[80,2060]'
  of_isolation 'isolation_impact($ref; $disr) * 24.75 | . * 1e6 | round / 1e6'      # 1 / (1980 / 80)
  is . 1
  isolation_runs '[0.01, 0.02, 0.03]' 0 9900 burn2
  of_isolation 'isolation_impact($ref; $disr)'
  is . 0
}

@test "isolation: the losses of all abiding sites are added before the division" {
  isolation_runs '[0.04, 0.02, 0.03]' 0 9900 burn2      # 0.03 of 0.06; a mean of ratios would be 1
  of_isolation 'isolation_impact($ref; $disr) * 24.75 | . * 1e6 | round / 1e6'
  is . 0.5
}

@test "isolation: the load is the CPU time asked for" {
  isolation_runs '[0.02, 0.04, 0.06]' 0 990 burn20
  of_isolation '[$ref, $disr | load_ms]'
  is . '[80,2060]'
}

@test "isolation: a request that is refused counts with the time that a client waits" {
  isolation_runs '[0.01, 0.02, 0.03]' 10 9900 burn2
  of_isolation '[$disr | abiding[] | request_s * 1e6 | round / 1e6]'
  is . '[1.009,1.018,1.027]'
  of_isolation '$disr | abiding_failed'
  is . 0.1
  of_isolation 'isolation_impact($ref; $disr) > 2'
  is . true
}

@test "isolation: a site of which nothing is known has no impact" {
  isolation_runs '[0.01, 0.02, 0.03]' 0 9900 burn2
  of_isolation '[isolation_impact($ref; $disr | .clients[0] |= (.timed = 0 | .untimed = 0))]'
  is . '[]'
  of_isolation '[isolation_impact($ref; $ref)]'          # no more load
  is . '[]'
}

@test "isolation: the average is that of several loads" {
  isolation_runs '[0.02, 0.04, 0.06]' 0 9900 burn2
  of_isolation '[isolation_average($ref; $disr), isolation_average($ref; ($disr, ($disr | .clients[4].begun = 900)))] | map(. * 24.75 * 1e6 | round / 1e6)'
  is . '[1,6]'                                            # 1 and 24.75 / 2.25
}

@test "isolation: Jain's index is of what each site got of its max-min fair share" {
  run jq -nc -L "$TOP/tools/lib" 'include "isolation"; [[1, 1, 1, 10] | max_min(8)], [[5, 5, 9, 9] | max_min(20)], [[9, 1] | max_min(30)]'
  [ "$output" = $'[[1,1,1,5]]\n[[5,5,5,5]]\n[[9,1]]' ]
  run jq -nc -L "$TOP/tools/lib" 'include "isolation"; [1, 1, 1, 1], [1, 0, 0, 0], [2, 1] | jain'
  [ "$output" = $'1\n0.25\n0.9' ]
  isolation_runs '[0.01, 0.02, 0.03]' 0 9900 burn2 4600   # site 4: 470 a second of the 470 left
  of_isolation '$disr | jain_of_shares'
  is . 1
  isolation_runs '[0.01, 0.02, 0.03]' 50 9900 burn2 4850  # the others get a half
  of_isolation '$disr | jain_of_shares * 1e4 | round'
  is . 8929                                               # 2.5 ^ 2 / (4 * 1.75)
  isolation_runs '[0.01, 0.02, 0.03]' 0 9900 burn2 0 slow
  of_isolation '$disr | jain_of_shares'
  is . 1
}

@test "an interval is of Student's t over the rounds, and one round has none" {
  run jq -nc -L "$TOP/tools/lib" 'include "isolation"; [1, 9, 30, 31, 60, 98 | student_t(.) * 1000 | round]'
  is . '[12706,2262,2042,2040,2000,1984]'
  run jq -nc -L "$TOP/tools/lib" 'include "isolation"; [1, 2, 3] | interval | map_values(. * 1e3 | round)'
  is . '{"mean":2000,"half":2484,"low":-484,"high":4484}'
  run jq -nc -L "$TOP/tools/lib" 'include "isolation"; [[4], [] | interval]'
  is . '[{"mean":4,"half":null,"low":null,"high":null},{"mean":null,"half":null,"low":null,"high":null}]'
}

# Rows with intervals: of the module and of plain Apache, which the row names.
interval_rows() { # <bar> <rate of the module in each round>...
  local n=0 rate
  rm -f run-*.json
  for rate in "${@:2}"; do
    n=$((n + 1))
    canned "$n" mixed plain 9 100 1 0
    canned "$n" mixed vhostlimit 1 "$rate" 1 0
  done
  with_bench 'test=() test_rows=(); test_intervals
    test_row all@plain total "" "" "this | .total.rate"; test_row all@vhostlimit total "$3" "" "this | .total.rate"; test_row all@vhostlimit more "" "" 1
    rows_json run-*.json' "$1"
}

@test "a bar is met by the worse end of the interval, and by the value of a single round" {
  interval_rows '<= 12' 9 10 11                # 10 ± 2.48
  is 'map(select(.target == "vhostlimit" and .name == "total"))[0] | [.bar_met, .median, (.high > 12)]' '[false,10,true]'
  interval_rows '<= 12.5' 9 10 11
  is 'map(select(.target == "vhostlimit" and .name == "total"))[0].bar_met' true
  interval_rows '>= 9' 9 10 11
  is 'map(select(.target == "vhostlimit" and .name == "total"))[0].bar_met' false
  interval_rows '<= 10' 10
  is 'map(select(.target == "vhostlimit" and .name == "total"))[0] | [.bar_met, .high]' '[true,null]'
}

@test "rows with intervals are a table of the targets, plain Apache too; only those with bars are among the others" {
  interval_rows '<= 12' 9 10 11
  is 'map([.target, .name])' '[["plain","total"],["vhostlimit","total"],["vhostlimit","more"]]'
  jq '{ rows: ., options: { length: "quick" } }' <<<"$output" >result.json
  with_bench 'lib_jq report "beside_text, rows_text" -r result.json | report_cells ""'
  [[ ${lines[0]} == *'mean and 95 % interval, 3 rounds'*plain*vhostlimit* ]]
  [[ ${lines[1]} == total*'100.000 ± 0.000'*'10.000 ± 2.484' ]]
  [[ ${lines[2]} =~ ^more\ +-\ +1.000\ ±\ 0.000$ ]]
  [[ $output == *'These are not figures to publish'*'there were 3 of --quick.'* ]]
  [[ $output == *'vhostlimit: total'*missed* && $output != *'vhostlimit: more'* ]]
}

@test "rows side by side have the median and the range of each target, for each page" {
  rm -f run-*.json
  canned 1 static plain 9 100 1 0; canned 2 static plain 9 120 1 0; canned 3 static plain 9 115 1 0
  canned 1 static vhostlimit 9 5.5 1 0; canned 1 php plain 9 1234.5 1 0
  with_bench 'test=() test_rows=(); test_side_by_side
    test_row all@plain total "" "" "this | .total.rate"; test_row all@vhostlimit total "" "" "this | .total.rate"
    rows_json run-*.json'
  jq '{ rows: ., options: { length: "default" } }' <<<"$output" >result.json
  with_bench 'lib_jq report "beside_text, rows_text" -r result.json | report_cells ""'
  [[ ${lines[0]} == 'median and range, 3 rounds'*plain*vhostlimit ]]
  [[ ${lines[1]} == 'php, total'*' 1235'*' -' ]]
  [[ ${lines[2]} == 'static, total'*' 115 (100 to 120)'*' 5.50' ]]
  [[ $output != *'figures to publish'* && $output != *'bar'* ]]
  with_bench 'lib_jq report markdown -r result.json >table.md'
  [ "$(cat table.md)" = $'| median and range, 3 rounds | plain | vhostlimit |\n| --- | --- | --- |\n| php, total | 1235 | - |\n| static, total | 115 (100 to 120) | 5.50 |' ]
}

@test "the isolation test has four sites and five kinds of load a hundred times as high, ten rounds" {
  with_bench 'test_read isolation length=default; option[length]=default
    echo "${test[sites]} ${test[targets]} $(lengths)"; echo "${test_scenes[*]}"
    for scene in "${test_scenes[@]:1}"; do test_loads_of "$scene" | sed -n "s/.* site4 10000 0 100 \(burn[0-9]*\) .*:rate=\([0-9.]*\)%.*/\1 \2/p" | tr -d "[:alpha:]"; done |
      awk "{ print \$1 * \$2 }" | paste -sd " "'
  [ "${lines[0]}" = '4 plain,mod_qos,haproxy,nginx,vhostlimit 20 2 3 10' ]
  [ "${lines[1]}" = 'reference requests-100 cpu-100 slow-100 network-100 swarm-100' ]
  [ "${lines[2]}" = '396 396 396 396 396' ]               # 99 times 2 ms * 2 %
  with_bench 'test_read isolation length=full; echo "${test_scenes[*]}"'
  [[ $output == *'reference requests-10 requests-100 cpu-10 cpu-100 '* ]]
}

@test "nginx has an equal part of the capacity as its rate" {
  with_bench 'bed_set sites=4; trial_set capacity=290.5; target_rate; trial_set capacity=3; target_rate; target_lines nginx ""'
  [ "${lines[0]} ${lines[1]}" = '72 1' ]
  [[ ${lines[2]} == *'limit_req 1r/s'*'limit_conn 100'* ]]
}

@test "each test has a one-line description, and its loads, pages and targets exist" {
  with_bench 'for name in $(test_list | cut -f 1); do (
      test_read "$name"
      for page in ${test[pages]//,/ }; do page_known "$page" || [ "$page" = mixed ]; done
      for target in ${test[targets]//,/ }; do target_known "$target"; done
      for scene in "${test_scenes[@]}"; do
        test_loads_of "$scene" | awk "NF != 8 || \$2 !~ /^[123]\$/ || \$3 !~ /^site[1-4]\$/ || \$5 >= \$6 { print; bad = 1 } END { exit bad || !NR }"
      done
      echo "$name" ); done'
  [ "${#lines[@]}" -ge 9 ]
}

@test "docs/benchmarks.md has each test" {
  local name
  with_bench 'test_list | cut -f 1'
  for name in "${lines[@]}"; do
    grep -q "^|.*\`$name\`.*|.*|\$" "$TOP/docs/benchmarks.md" || { echo "not there: $name"; return 1; }
  done
}

@test "each test's rows are valid jq, with valid bars and goals" {
  canned 1 static vhostlimit 460 1000 1 0
  with_bench 'for name in $(test_list | cut -f 1); do (
      test_read "$name"
      ((${#test_rows[@]}))
      rows_json run-1-static-vhostlimit.json >rows
      jq -r ".[] | .bar, .goal" rows ); done'
  for line in "${lines[@]}"; do
    [[ -z $line || $line =~ ^([<>]=\ [0-9.]+|>\ [0-9.]+|=\ 0)(\ (s|%))?$ ]] || { echo "not a bar: $line"; return 1; }
  done
}

@test "the order of targets rotates with each repetition" {
  with_bench 'test_read noisy; measure=([targets]=plain,vhostlimit)
    for n in 1 2 3; do measure_contenders | measure_rotated "$n"; done | cut -d " " -f 1 | paste -sd " "'
  [ "$output" = 'plain vhostlimit vhostlimit plain plain vhostlimit' ]
}

@test "plain-best uses the fastest number of threads for each page, plain that of the module" {
  with_bench 'test_read noisy
    measure=([targets]=plain,plain-best,vhostlimit [pages]=static,php [workers]=400)
    measure_try() { case $1$2 in static50 | php1200) measure_rate=1000.5 ;; *) measure_rate=99 ;; esac; }
    measure_tune
    measure_workers static plain-best; measure_workers static plain; measure_workers static vhostlimit
    measure_workers php plain-best; measure_workers php plain
    lib_jq result "\$text | tries | map([.page, .workers, .rate])" -nc --arg text "$measure_tries"'
  [ "${lines[*]:0:5}" = '50 400 400 1200 400' ]
  [ "${lines[5]}" = '[["static",25,99],["static",50,1000.5],["static",100,99],["static",400,99],["static",1200,99],["php",25,99],["php",50,99],["php",100,99],["php",400,99],["php",1200,1000.5]]' ]
}

@test "a rate in percent is that of the capacity that plain Apache had on the page, for all users together" {
  with_bench 'test_read overload
    measure=([targets]=plain,vhostlimit [pages]=static,php [workers]=400 [length]=quick [warm]=1 [load]=wrk [keepalive]=0)
    measure_try() { case $1$2 in static400) measure_rate=900 ;; php400) measure_rate=100.5 ;; esac; }
    measure_capacities
    for page in static php; do
      measure_set 1 "$page" plain overload 3 400 out
      trial_load crowd:addresses=16000:rate=200%:patience=3 400; trial_load crowd:rate=2 400; trial_load h2load:10 400
    done
    lib_jq result "\$text | tries | map([.page, .workers, .rate])" -nc --arg text "$measure_tries"'
  [ "${lines[0]}" = 'crowd:addresses=16000:rate=4.500000:patience=3' ]
  [ "${lines[1]}" = 'crowd:rate=2' ]
  [ "${lines[2]}" = 'h2load:10' ]
  [ "${lines[3]}" = 'crowd:addresses=16000:rate=0.502500:patience=3' ]
  [ "${lines[6]}" = '[["static",400,900],["php",400,100.5]]' ]
}

@test "the capacity is not measured for a test that does not ask for it" {
  with_bench 'test_read noisy; measure=([targets]=plain,vhostlimit [pages]=static [workers]=400)
    measure_try() { echo tried; }
    measure_capacities; echo none'
  [ "$output" = none ]
}

@test "a test may have its own length; the others have that of the command line" {
  with_bench 'for name in overload noisy isolation; do
      for length in quick default full; do (test_read "$name" length=$length; option[length]=$length; lengths | cut -d " " -f 1); done
    done | paste -sd " "'
  [ "$output" = '15 60 60 3 25 300 3 20 60' ]
}

@test "a test with addresses of the clients of the test bed cannot run with others" {
  with_bench 'for name in $(test_list | cut -f 1); do
      (test_read "$name"; [[ $(test_made_with) != *crowd* || -n ${test[local]-} ]] || echo "$name")
    done; echo end'
  [ "$output" = end ]
}

@test "the time left is corrected by the measured time of steps" {
  with_bench 'progress_begin 100
    progress_start=$((SECONDS - 30)); progress_done 10; echo $((progress_total - 30))
    progress_start=$((SECONDS - 40)); progress_done 40; echo $((progress_total - 40))'
  [[ ${lines[0]} =~ ^2(6[5-9]|7[0-9])$ && ${lines[1]} =~ ^(3[89]|4[0-2])$ ]]
}

@test "progress is a line, with the time that is left" {
  with_bench 'progress_begin 100; progress_start=$((SECONDS - 50)); progress_step x; progress_end; progress_show'
  [[ $output =~ ^bench\.sh:\ x\;\ (49|50)\ s\ left$ ]]
}

@test "without plain-best no numbers of threads are tried" {
  with_bench 'test_read noisy
    measure=([targets]=plain,vhostlimit [pages]=static [workers]=200)
    measure_try() { echo tried; }
    measure_tune; measure_workers static plain'
  [ "$output" = 200 ]
}

@test "the report has a row of medians for each page, with its result" {
  for n in 1 2 3; do
    canned "$n" php plain 100 1000 1 0
    canned "$n" php vhostlimit "$((400 + n * 50))" 1000 1 0
  done
  with_bench 'test_read noisy; rows_json run-*.json | jq "{ rows: . }" >result.json; lib_jq report rows_text -r result.json | report_cells ""'
  [[ ${lines[1]} == *"$victims"*1.000*0.900..1.100*'>= 0.97'*'>= 1.0'*'met, and the goal' ]]
  [[ ${lines[3]} == *'failures of either site'*' 0 '*0..0*'met, and the goal' ]]
}

@test "each of the dictionaries is changed by the file that owns it only" {
  local name owner found changes=''
  for name in option:../bench.sh test:./test.sh test_option:./test.sh trial:./trial.sh measure:./measure.sh 'bed:./bed(-server)?.sh'; do
    owner=${name#*:} name=${name%%:*}
    found=$(cd "$TOP/tools/lib" && grep -nE "^([^#]*[ ;(])?$name(\\[[^]]*\\])?\\+?=" ./[!c]*.sh ./c[!t]*.sh ../bench.sh ../setup.sh)
    [ -n "$found" ]
    changes+=$(grep -vE "^$owner:" <<<"$found") || true
  done
  printf '%s\n' "$changes"
  [ -z "$changes" ]
}

@test "the server has one CPU, or --server-cpus, and load generators have the others" {
  with_bench 'cpu_list() { printf "%s\n" 2 3 6 7; }
    cpus() { printf "%s | %s | %s\n" "$(cpu_server)" "$(cpu_clients)" "$(cpu_of_record server)"; }
    cpus; cpu_give_server 3; cpus; cpu_clients_elsewhere; cpus; cpu_list() { echo 4; }; cpu_clients_here=yes; cpu_give_server 1; cpus'
  [ "${lines[0]}" = '2 | 3,6,7 | 2' ]
  [ "${lines[1]}" = '2,3,6 | 7 | 2,3,6' ]
  [ "${lines[2]}" = '2,3,6,7 | 2,3,6,7 | all' ]
  [ "${lines[3]}" = '4 | 4 | 4' ]
}

@test "--awake: idle CPUs poll until the program ends, where the kernel can" {
  [[ -w /dev/cpu_dma_latency && $(cat /sys/devices/system/cpu/cpu0/cpuidle/state0/name) == POLL ]] ||
    skip "the kernel has no idle state that polls, or no /dev/cpu_dma_latency"
  with_bench 'cpu_stay_awake && od -An -td4 -N4 /dev/cpu_dma_latency | tr -d " "'
  [ "$output" = 0 ]
}

@test "--awake: a kernel that cannot poll is reported" {
  with_bench 'cat() { return 1; }; cpu_stay_awake || echo no'
  [ "$output" = no ]
}
