#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# needs: bed
# bench.sh from end to end, and interrupted.

bats_require_minimum_version 1.5.0
load lib/common
load lib/httpd

BED=${VL_BED:-vhostlimit-testbed}
DIR=/run/$BED

need_fleet() { need_pkgconfig hiredis && need_pkgconfig jansson; }
need_pkgconfig() { pkg-config --exists "$1" || { echo "no $1"; return 1; }; }
need_redis() { need_program redis-server; }

setup() {
  requires root netns siege wrk sar
  cd "$BATS_TEST_TMPDIR" || return
}

nothing_left() {
  [[ ! -e $DIR && ! -e $DIR.lock && ! -e /etc/netns/vl-client1 ]] && ! grep -q '^vl-' <<<"$(ip netns list)"
}

begin_bench() { # <option>...: in the background; its pid is in $bench
  # a shell's background jobs ignore INT, a program started by hand does not
  env --default-signal=INT "$TOP/tools/bench.sh" --quick --seconds 1 --keep-noisy --target plain --page sleep "$@" >report 2>log 3>&- &
  bench=$!
}

end_bench() { # <signal>: and its status
  local rc=0
  signal_until_gone "$1" "$bench"
  wait "$bench" || rc=$?
  cat report log
  printf 'status %s\n' "$rc"
  return "$rc"
}

interrupted_after_a_run() { # <signal>
  local try
  begin_bench -o out --repeat 50
  for ((try = 0; try < 1500; try++)); do
    [[ ! -e out/result.json ]] || break
    sleep 0.1
  done
  end_bench "$1"
}

@test "a run in which siege crashes is repeated" {
  requires long
  mkdir bin
  # shellcheck disable=SC2016  # for the shell there
  printf '#!/bin/sh\ncase "$*" in *-t2S*) if mkdir %q 2>/dev/null; then kill -SEGV $$; fi ;; esac\nexec %q "$@"\n' \
    "$PWD/crashed" "$(command -v siege)" >bin/siege
  chmod +x bin/siege
  PATH=$PWD/bin:$PATH run "$TOP/tools/bench.sh" --quick --seconds 2 --keep-noisy --load siege -w 50 --target plain --page sleep -o out 3>&-
  printf '%s\n' "$output"
  [ "$status" -eq 0 ]
  [[ $output == *'ended with status 139: '*'; the run is repeated'* ]]
  jq -e '.complete and (.runs | length == 1)' out/result.json
  nothing_left
}

@test "a measurement: the order of targets rotates, all runs are kept, weights reach the module, and the result says what was measured" {
  run --separate-stderr "$TOP/tools/bench.sh" --quick --seconds 2 --keep-noisy --repeat 2 --page php --target plain,vhostlimit -o out weights 3>&-
  # shellcheck disable=SC2154  # set by run --separate-stderr
  printf '%s\n%s\n' "$output" "$stderr"
  [ "$status" -eq 0 ]
  nothing_left
  [ "$(jq -r '[.runs[] | "\(.repetition) \(.target) \(.sites | map(.users) | join("+"))"] | join(", ")' out/result.json)" = \
    '1 plain 300+300+300, 1 vhostlimit 300+300+300, 2 vhostlimit 300+300+300, 2 plain 300+300+300' ]
  jq -e '[.runs[] | select(.target == "vhostlimit")] | all(.sites[0].p99_s > 0)' out/result.json
  jq -e '.rows | length == 1 and (.[0].values | length) == 2' out/result.json
  jq -e '.runs[1] | [.status.vhosts[] | select(.name | startswith("site")) | .weight] == [300, 200, 100]' out/result.json
  charged_by_weight
  [[ $output == *"Jain's index"* && $stderr == *" left"* ]]
  jq -e 'all(.runs[]; .total.rate > 0 and .jain > 0 and .sar.cpu.server.busy > 0 and .sar.memory.used_kb > 0)' out/result.json
  jq -e '.schema == 2 and .complete and .machine.kernel and .machine.httpd and (.options.load | startswith("wrk"))' out/result.json
  jq -e 'all(.runs[]; .commands | any(test("vl-client2 .* wrk .*-c300 ")))' out/result.json
  jq -e '.options.command | contains("--quick --seconds 2 --keep-noisy --repeat 2")' out/result.json
  jq -e '.build | (.module_sha256 | length == 64) and .cflags == "-g -O2" and .configure == ""' out/result.json
  [ "$(sha256sum out/mod_vhostlimit.so | cut -d ' ' -f 1)" = "$(jq -r .build.module_sha256 out/result.json)" ]
  grep -q "LoadModule vhostlimit_module \"$DIR/mod_vhostlimit.so\"" out/1-php-vhostlimit.conf
  [[ $output == *"module:    "*"CFLAGS -g -O2; SHA-256 $(jq -r .build.module_sha256 out/result.json)"* ]]
  jq -e 'all(.runs[]; .others_cpu >= 0 and (.client_cpu | length) == 1 and (.noise | type) == "array")' out/result.json
}

# Of the CPU time charged between two samples that both find a hundred waiting requests of each site: on a loaded
# machine the clients do not keep up otherwise. It is a half, a third and a sixth; a third each without weights.
charged_by_weight() {
  jq -c '[.runs[] | select(.target == "vhostlimit")
    | [.samples[].sites | [.site1, .site2, .site3]] | range(1; length) as $i | [.[$i], .[$i - 1]]
    | select(all(.[][]; .waiting > 100)) | map(map(.charged_us)) | transpose | map(.[0] - .[1])]
    | transpose | map(add)' out/result.json >charged
  cat charged
  jq -e 'add >= 60000 and .[0] * 2 > .[2] * 3' charged
}

@test "later loads begin on time, -k keeps connections alive, and the status page is sampled" {
  run "$TOP/tools/bench.sh" --quick --keep-noisy -k --page static -o out recovery 3>&-
  printf '%s\n' "$output"
  [ "$status" -eq 0 ]
  jq -c '.runs[0].clients[] | [.role, .from_s, .to_s]' out/result.json
  jq -e '.runs[0].clients | map(.from_s) | .[0] < .[1] and .[1] >= 1 and .[2] >= 1' out/result.json
  jq -e '.runs[0].samples | length > 20 and (map(.at) | . == sort) and .[-1].sites.site2.requests > 0' out/result.json
  jq -e '.runs[0].keepalive and .rows[0].median >= 0' out/result.json
}

@test "a cap limits CPU time, as counted by the kernel" {
  grep -qE '^[^ ]+ [^ ]+ cgroup2? ' /proc/self/mounts || skip "no cgroups here"
  run "$TOP/tools/bench.sh" --quick --keep-noisy -o out cap 3>&-
  printf '%s\n' "$output"
  [ "$status" -eq 0 ]
  jq -c '.runs[0].usage' out/result.json
  jq -e '.runs[0].usage | length == 4 and .[3].sites.site2 > 0' out/result.json
  jq -e '.rows | length == 2 and all(.median != null and .median < 30)' out/result.json
}

@test "a fleet: three servers with a quota each, a store that dies, and every row is measured" {
  requires long fleet redis
  grep -qE '^[^ ]+ [^ ]+ cgroup2? ' /proc/self/mounts || skip "no cgroups here"
  run "$TOP/tools/bench.sh" --quick --keep-noisy -o out fleet 3>&-
  printf '%s\n' "$output"
  [ "$status" -eq 0 ]
  nothing_left
  jq -e '[.runs[] | select(.target == "vhostlimit").scene] | sort == ["cap", "share", "sites", "store"]' out/result.json
  jq -e 'all(.rows[]; .median != null)' out/result.json
  jq -e '.runs[] | select(.scene == "store" and .fleet) | [.fleet.events[].what] == ["killed", "answers"]' out/result.json
  jq -e '.runs[] | select(.scene == "store" and .target == "vhostlimit") | .total.failures == 0' out/result.json
  jq -e '.runs[] | select(.scene == "sites" and .fleet) | all(.fleet.daemons[]; .state == "leasing" and .servers == 3 and .rows > 2000)' out/result.json
  grep -q 'limit site1.test cpu=100%' out/1-mixed-vhostlimit-cap.conf
}

@test "HAProxy ends TLS and speaks HTTP/2 where a test wants it, and a scene has its own protocol" {
  requires long haproxy h2load openssl
  run "$TOP/tools/bench.sh" --quick --seconds 1 --keep-noisy --page static --target haproxy -o out overview 3>&-
  printf '%s\n' "$output"
  [ "$status" -eq 0 ]
  nothing_left
  jq -e '[.runs[] | "\(.scene) \(.keepalive)"] == ["http1-close false", "https-kept true", "http2 false"]' out/result.json
  jq -e 'all(.runs[]; .total.transactions > 0 and .server_cpus == 1)' out/result.json
  grep -q 'bind 198.18.0.1:443 ssl crt .* alpn h2,http/1.1 ' out/1-static-haproxy-http2.conf
  grep -q 'bind 198.18.0.1:80 backlog' out/1-static-haproxy-http1-close.conf
  run ! grep SSLEngine out/1-static-haproxy-http2.conf
  grep -q 'Application protocol: h2' out/1-static-haproxy-http2-load1.h2load
}

@test "an interrupted measurement reports its complete runs and leaves nothing" {
  run interrupted_after_a_run INT
  printf '%s\n' "$output"
  [ "$status" -eq 130 ]
  nothing_left
  jq -e '(.complete | not) and (.runs | length) >= 1' out/result.json
  grep -q 'of 50, interrupted' report
  cmp report out/report.txt
}

@test "noisy with mod_qos, haproxy and process-limit: each has its own configuration and rows" {
  requires long haproxy mod_qos
  run "$TOP/tools/bench.sh" --quick --seconds 2 --keep-noisy --page static --target plain,mod_qos,haproxy,process-limit -w 100 -o out 3>&-
  printf '%s\n' "$output"
  [ "$status" -eq 0 ]
  nothing_left
  # Plain Apache and mod_qos may leave a site without a response for two seconds.
  jq -e 'all(.runs[]; .total.transactions > 0 and (.sites | length) == 2)' out/result.json
  jq -e '[.runs[] | select(.target | IN("haproxy", "process-limit"))] | length == 2 and all(.[].sites[]; .transactions > 0)' out/result.json
  [ "$(jq -r '[.rows[].target] | unique | join(" ")' out/result.json)" = 'haproxy mod_qos process-limit' ]
  grep -q 'QS_LocRequestLimitDefault 33' out/1-static-mod_qos.conf
  [ "$(grep -c 'maxconn 33$' out/1-static-haproxy.conf)" -eq 3 ]
  [ "$(grep -c '^MaxRequestWorkers 50$' out/1-static-process-limit.conf)" -eq 2 ]
  run ! grep -E 'haproxy|QS_' out/1-static-plain.conf
}

@test "sandbox: each request of a CGI program runs in a sandbox, over HTTP/2" {
  requires long bubblewrap h2load mod_http2
  run --separate-stderr "$TOP/tools/bench.sh" --quick --seconds 1 --keep-noisy --target bubblewrap -o out sandbox 3>&-
  printf '%s\n%s\n' "$output" "$stderr"
  [[ $status -ne 77 ]] || skip "$stderr"
  [ "$status" -eq 0 ]
  nothing_left
  jq -e '[.runs[] | [.scene, .clients[0].users]] == [["c10", 10], ["c100-m10", 1000]]' out/result.json
  jq -e '.runs[0].total.transactions > 0 and all(.runs[]; .commands | any(test(" h2load .*-m(1|10) ")))' out/result.json
}

need_bubblewrap() { need_program bwrap; }
