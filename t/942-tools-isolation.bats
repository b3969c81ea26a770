#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# needs: bed
# The isolation test of bench.sh, and nginx in front of the test bed's Apache.
# shellcheck disable=SC2030,SC2031  # output and status are set and read within one test

bats_require_minimum_version 1.5.0
load lib/common
load lib/httpd

BED=${VL_BED:-vhostlimit-testbed}
DIR=/run/$BED

need_nginx()   { need_program nginx; }

setup() {
  requires root netns sar nginx
  cd "$BATS_TEST_TMPDIR" || return
}

# Prints the median of a row of the target.
row() { # <target> <name>
  jq -r --arg target "$1" --arg name "$2" '.rows[] | select(.target == $target and .name == $name) | .median' out/result.json
}

@test "bench.sh --quick isolation: each scene runs to its end on the module and on nginx" {
  requires long
  local kind target targets=(vhostlimit nginx) all
  printf -v all ',%s' "${targets[@]}"
  run --separate-stderr "$TOP/tools/bench.sh" --quick --seconds 2 --keep-noisy --target "${all:1}" -o out isolation 3>&-
  # shellcheck disable=SC2154  # set by run --separate-stderr
  printf '%s\n%s\n' "$output" "$stderr"
  [ "$status" -eq 0 ]
  [[ ! -e $DIR && ! -e $DIR.lock ]]
  [ "$(jq '[.runs[] | "\(.target) \(.scene)"] | unique | length' out/result.json)" = $((6 * ${#targets[@]})) ]
  # Each site's usual load is the same in all scenes, and all of its requests were begun.
  jq -e '(.runs[0].capacity * 0.02 * 2) as $usual | all(.runs[]; .clients | map(select(.role == "abiding")) |
    length == 3 and all(.begun > 0.7 * $usual and .begun < 1.3 * $usual + 1))' out/result.json
  # The disruptive site asks for a hundred times as much, and slow clients get no response.
  jq -e --argjson n "${#targets[@]}" '[.runs[] | select(.scene != "reference") | .clients | (map(select(.site == "site4") | .begun * (.page | ltrimstr("burn") | tonumber)) | add)
    / (map(select(.role == "own"))[0] | .begun * 2)] | length == 5 * $n and all(. > 70 and . < 140)' out/result.json
  jq -e --argjson n "${#targets[@]}" '[.runs[].clients[] | select(.role == "slow")] | length == $n and all(.begun > 0 and .transactions == 0)' out/result.json
  for target in "${targets[@]}"; do
    for kind in requests cpu slow network swarm; do
      printf '%s %s: %s, %s\n' "$target" "$kind" "$(row "$target" "$kind, 100 times: isolation impact I_QoS")" "$(row "$target" "$kind, 100 times: Jain's index")"
      [[ $(row "$target" "$kind, 100 times: isolation impact I_QoS") =~ ^-?[0-9.e-]+$ ]]
      jq -ne --argjson jain "$(row "$target" "$kind, 100 times: Jain's index")" '$jain > 0 and $jain <= 1.000001'
    done
  done
  [ "$(jq -c '[.rows[] | select(.bar != "") | .target] | unique' out/result.json)" = '["vhostlimit"]' ]
  # The configurations of the run are those of conf/testbed.
  grep -q 'limit_req_zone .site ' out/1-mixed-nginx-reference.conf
  [ "$(grep -c 'ServerName site[1-4].test' out/1-mixed-vhostlimit-reference.conf)" -eq 4 ]
  jq -e '.runs[] | select(.target == "vhostlimit" and .scene == "reference") | .samples[-1].sites | has("site4")' out/result.json
  [[ $output == *'These are not figures to publish'* ]]
}

# Runs commands with a test bed of four sites and nginx in front, whose limit is one request a
# second of each site, with ten that wait.
with_nginx() { # <commands>
  run bash -c 'set -euo pipefail
    . "$1/tools/bench.sh"
    bed_lock; on_exit bed_down
    bed_set sites=4 front=nginx rate=1
    bed_up
    eval "$2"' bench.sh "$TOP" "$1" 3>&-
  printf 'status %s\n%s\n' "$status" "$output"
  [ "$status" -eq 0 ]
}

# shellcheck disable=SC2016  # expanded there
@test "nginx in front limits each site on its own" {
  with_nginx 'bed_healthy && echo healthy
    (client_exec 1 curl -s -Z --parallel-immediate -m 3 -o /dev/null -w "%{http_code} " "http://site1.test/?[1-30]" 2>/dev/null) || true
    echo
    for n in 2 3 4; do (client_exec 1 curl -s -m 3 -o /dev/null -w "%{http_code}\n" "http://site$n.test/"); done'
  [ "${lines[0]}" = healthy ]
  [ "$(grep -o 503 <<<"${lines[1]}" | wc -l)" -ge 10 ]
  [ "${lines[*]:2}" = '200 200 200' ]
}

# shellcheck disable=SC2016  # expanded there
@test "worker processes of an nginx that was killed do not stay" {
  with_nginx 'master=$(<"$bed_dir/nginx.pid"); mapfile -t workers < <(tr " " "\n" <"/proc/$master/task/$master/children" | sed "/^$/d")
    echo "${#workers[@]}"
    kill -9 "$master"
    poll_until 5 process_gone "$master"
    ! process_gone "${workers[@]}" || echo "they ended with it"
    bed_up
    process_gone "${workers[@]}" && bed_healthy && echo healthy'
  [ "${lines[0]}" -ge 1 ]
  [ "${lines[-1]}" = healthy ]
}
