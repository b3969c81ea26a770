#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Disturbed runs: which ones they are, how they are repeated, and how the report and the
# exit status show them.
# shellcheck disable=SC2016  # with_bench expands what it is given
# shellcheck disable=SC2030,SC2031,SC2154  # output, stderr and status are of bats, within one test

bats_require_minimum_version 1.5.0
load lib/common

setup() { cd "$BATS_TEST_TMPDIR" || return; }

# A run as trial.jq writes it, undisturbed, with the values that noise.jq and the report
# use. The jq filter changes it.
run_json() { # <filter>
  jq -nc '{ repetition: 1, page: "static", target: "plain", title: "plain Apache", scene: "-", configuration: "no limits",
    workers: 400, seconds: 5, keepalive: false,
    sites: [{ site: "site1", role: "victim", users: 100, transactions: 500, rate: 100, failures: 0, share: 0.5,
        availability: 100, mean_s: 0.1, longest_s: 0.4, p50_s: 0.1, p99_s: 0.3, waiting: null },
      { site: "site2", role: "noisy", users: 1000, transactions: 500, rate: 100, failures: 0, share: 0.5,
        availability: 100, mean_s: 0.1, longest_s: 0.4, p50_s: null, p99_s: null, waiting: null }],
    clients: [{ role: "victim", site: "site1", users: 100, from_s: 0, to_s: 5 }],
    total: { rate: 200, failures: 0 }, jain: 1, slots: null, samples: [], commands: [], noise: [], others_cpu: 0.5,
    sar: { gap_s: 0, still: [true, false, false, false, true], idle: [],
      cpu: { server: { user: 50, system: 48, iowait: 0, steal: 1, idle: 1 },
        clients: { user: 50, system: 10, iowait: 0, steal: 0, idle: 40 }, all: { steal: 0.5, idle: 20 } },
      memory: { used_kb: 100000, used_percent: 10 } },
    client_cpu: [{ name: "the clients", steal: 0, idle: 40, busy: 60 }] } | '"${1:-.}"
}

reasons() { # <filter> [busy]: kinds and sentences
  run_json "$1" | jq -r -L "$TOP/tools/lib" 'include "noise"; [disturbances('"${2-true}"') | "\(.kind): \(.why)"] | join("; ")'
}

@test "steal on either side and CPU time of other processes make a run void from 10 %" {
  is "$(reasons .)" ''
  is "$(reasons '.sar.cpu.server.steal = 10')" ''
  is "$(reasons '.sar.cpu.server.steal = 34.53')" "steal: 34.5 % of the server's CPU time was steal"
  is "$(reasons '.client_cpu[0].steal = 11')" 'steal: 11.0 % of the CPU time of the clients was steal'
  is "$(reasons '.client_cpu = [{ name: "client one", steal: 0, idle: 50 }, { name: "client two", steal: 20, idle: 50 }]')" \
    'steal: 20.0 % of the CPU time of client two was steal'
  is "$(reasons '.others_cpu = 10.1')" 'others: other processes used 10.1 % of the CPU time'
  is "$(reasons '.others_cpu = null')" ''
  is "$(reasons '.others_cpu = 30 | .target = "bubblewrap"')" '' 'the kernel removes its namespaces'
  is "$(reasons '.sar.cpu.server.steal = 34.53' false)" "steal: 34.5 % of the server's CPU time was steal"
}

@test "load generators without CPU beside an idle server make a run void, except in idle tests" {
  local starved='.sar.cpu.server.idle = 45 | .client_cpu[0].idle = 2'
  is "$(reasons "$starved")" "starved: the CPUs of the clients were full while the server's were 45.0 % idle"
  is "$(reasons "$starved" false)" ''
  is "$(reasons "$starved | .client_cpu[0].idle = 30")" '' 'both have time left: a queue is the limit'
  is "$(reasons '.client_cpu[0].idle = 0')" '' 'the server is busy'
}

@test "a stalled machine, and seconds without work, make a run void" {
  is "$(reasons '.sar.gap_s = 1')" ''
  is "$(reasons '.sar.gap_s = 4')" 'gap: the machine stalled for 4 s'
  is "$(reasons '.sar.still = [true, false, true, false, true]')" 'stalled: server and clients were idle in 1 of 3 seconds'
  is "$(reasons '.sar.still = [true, false, true, false, true]' false)" ''
  is "$(reasons '.sar.still = [range(25) | . == 7]')" '' '1 of 23'
  is "$(reasons '.sar.still = [range(25) | . < 4]')" 'stalled: server and clients were idle in 3 of 23 seconds'
  is "$(reasons '.sar = null | .client_cpu = []')" '' 'no record'
}

@test "a run below a fifth of the median of its like is an outlier, among three or more" {
  outliers() { # <rate>...
    local rate
    for rate; do run_json ".total.rate = $rate"; done | jq -src -L "$TOP/tools/lib" 'include "noise"; [outliers | [.[0], .[1].why]]'
  }
  is "$(outliers 12000 64 11500)" '[[1,"64.0 responses a second; the median of the same runs is 11500.0"]]'
  is "$(outliers 12000 2401 12000)" '[]'
  is "$(outliers 12000 64)" '[]'
  is "$({ run_json '.total.rate = 64 | .target = "vhostlimit"'; run_json .; run_json .; run_json .; } |
    jq -sc -L "$TOP/tools/lib" 'include "noise"; [outliers]')" '[]' 'of another target'
}

@test "tests with an idle server are marked, and a sleeping page is one" {
  with_bench 'for name in $(test_list | cut -f 1); do (test_read "$name"; trial=([page]=static); printf "%s %s\n" "$name" "$(trial_is_busy)"); done |
    sed -n "s/ false//p" | LC_ALL=C sort | paste -sd " "
    test_read noisy; trial=([page]=sleep); trial_is_busy'
  is "${lines[0]}" 'calls cap database fleet inside inside-http2 inside-tls isolation light long mix strangers tls-light waiting'
  is "${lines[1]}" false
}

@test "CPU time of other processes: all that bench.sh did not use" {
  with_bench 'printf "%s\n" "${@:3}" | lib_jq result "inputs | others" -Rn' '1000 500 500 100 2000 1400 1500 800' '1000 500 500 100 2000 1500 1400 800' \
    '1000 500 500 100 2000 1100 1400 800' ' ' '1 1 1 1 1 1 1 1'
  is "${lines[*]}" '20 20 0 null null'
}

@test "a run in which siege hangs is repeated; with another generator, bench.sh ends" {
  : >load1.siege
  : >load2.wrk
  # shellcheck disable=SC2016  # for the shell there
  overdue='trial[again]=; sleep 60 >/dev/null 2>&1 3>&- & trial_load_of[$!]="2 500 site2 $3"; trial_overdue "$!"; echo "${trial[lost]}, again: ${trial[again]}"'
  with_bench "$overdue" load1
  is "$output" 'the load of client 2, 500 users on site2: it was still running a minute after its end was due, again: yes'
  with_bench "$overdue" load2
  is "$output" ''
  like "$stderr" 'the load of client 2, 500 users on site2: it was still running'
}

# Runs commands with the functions of bench.sh.
with_bench() { # <commands> <argument>...
  run --separate-stderr bash -c 'set -euo pipefail; . "$1/tools/bench.sh"; eval "$2"' bench.sh "$TOP" "$@"
  printf 'status %s\n%s\n%s\n' "$status" "$output" "$stderr"
}

# bench.sh's loop over the runs and its end, with the options of a command line. The n-th
# run is made by run_json with the filter in the file run-N; others are undisturbed.
measured() { # <option>...
  declare -f run_json >functions
  with_bench '. ./functions; shift 2
    n=0
    need_root() { :; }; prepare() { mkdir -p "${measure[out]}"; }; measure_tune() { :; }
    trial_run() {
      n=$((n + 1)) trial[lost]=
      local given=.
      [[ ! -e run-$n ]] || given=$(<"run-$n")
      echo "$n ${trial[prefix]##*/}" >>made
      run_json ".repetition = ${trial[repetition]} | .target = \"${trial[target]}\" | .title = .target | .page = \"${trial[page]}\" | $given" \
        >"${trial[prefix]}.json"
    }
    main --page static --target plain,vhostlimit -o out "$@"' "$@"
}

of_result() { jq -c "$1" out/result.json; }     # <filter>

steal='.noise = [{ kind: "steal", why: "34.5 % of the server'\''s CPU time was steal" }]'

@test "a void run is repeated, is in no median, and is listed with its reason" {
  echo "$steal | .total.rate = 2 | .sites[].rate = 1" >run-2
  measured --repeat 2
  is "$status" 0
  is "$(cut -d ' ' -f 2 made | xargs)" '1-static-plain 1-static-vhostlimit 1-static-vhostlimit-again1 2-static-vhostlimit 2-static-plain'
  is "$(of_result '[.runs[] | [.repetition, .target, .total.rate]]')" '[[1,"plain",200],[1,"vhostlimit",200],[2,"vhostlimit",200],[2,"plain",200]]'
  is "$(of_result '[.void[] | [.repetition, .target, .rate, .noise[0].kind, .file]]')" '[[1,"vhostlimit",2,"steal","1-static-vhostlimit.json"]]'
  is "$(of_result '.rows[1].values')" '[1,1]'
  like "$output" 'void: +1 of 5 runs were disturbed; no figure includes them:'
  like "$output" "void: +static page, vhostlimit, repetition 1, 2\.0/s: 34\.5 % of the server's CPU time was steal"
  like "$output" 'runs that count, and void ones +2, 0 void +2, 1 void'
  like "$output" 'outliers: +not searched'
}

@test "a machine that is always disturbed ends the measurement as too noisy" {
  for n in {1..30}; do echo "$steal" >"run-$n"; done
  measured --repeat 3
  is "$status" 0
  is "$(wc -l <made)" 10 'runs made: 6, and 4 again'
  is "$(of_result '[.runs, (.void | length), (.options.missing | length)]')" '[[],10,6]'
  like "$output" 'noise: +this machine was too noisy: no run counts, there are no figures'
  rm -rf out made
  measured --repeat 3 --strict
  is "$status" 3
}

@test "a run is repeated twice at most, and its repetition then has no value" {
  for n in 1 2 3; do echo "$steal" >"run-$n"; done
  measured --repeat 3
  is "$(of_result '[(.runs | length), (.void | length), .options.missing]')" '[5,3,[{"repetition":1,"page":"static","target":"plain","scene":"-"}]]'
  is "$(of_result '.rows[1].values')" '[1,1]'
  like "$output" 'missing: +static page, plain, repetition 1: no run of it counts'
  like "$output" 'noise: +this machine was too noisy: the figures are of 5 of 8 runs'
}

@test "an outlier is found after all runs and repeated" {
  echo '.total.rate = 6' >run-1
  measured --repeat 3
  is "$status" 0
  is "$(tail -n 1 made)" '7 1-static-plain-again1'
  is "$(of_result '[(.runs | map(.total.rate) | unique), .void[0].noise[0].kind, .options.missing]')" '[[200],"outlier",[]]'
  like "$output" 'void: +static page, plain, repetition 1, 6\.0/s: 6\.0 responses a second; the median of the same runs is 200\.0'
}

@test "--keep-noisy counts disturbed runs, and the report names them" {
  echo "$steal" >run-1
  echo '.total.rate = 6' >run-2
  measured --repeat 3 --keep-noisy
  is "$(wc -l <made)" 6
  is "$(of_result '[(.runs | length), (.void | length), .options.noisy]')" '[6,0,"keep"]'
  like "$output" 'disturbed: static page, plain, repetition 1, .* was steal; it counts because of --keep-noisy'
  like "$output" 'disturbed: static page, vhostlimit, repetition 1, 6\.0/s: .* it counts'
}

@test "--strict ends with 1 if a row misses its bar" {
  measured --repeat 1
  is "$status" 0 'a missed bar without --strict'
  like "$output" '<= 0\.3 +<= 0\.2 +missed'
  rm -rf out
  measured --repeat 1 --strict
  is "$status" 1
  like "$stderr" 'rows that missed their bars: 1'
  rm -rf out
  echo '.sites[0].p99_s = 0.01' >run-2
  measured --repeat 1 --strict
  is "$status" 0
  rm -rf out
  measured --repeat 1 --strict --target vhostlimit
  is "$status" 3 'rows without a value'
  like "$stderr" 'rows with a bar that were not measured: 3'
  rm -rf out
  with_bench 'need_root() { :; }; prepare() { die "no such thing"; }; main --strict -o out'
  is "$status" 3 'a failure'
}

@test "--full has three repetitions, and the duration is printed before the measurement" {
  with_bench 'option[length]=full; test_read noisy; lengths'
  is "$output" '300 10 10 3'
  measured --repeat 3
  like "$stderr" 'bench\.sh: 6 runs, about '
}
