#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Many requests, many vhosts and children that are replaced: every request is counted once,
# and memory does not grow. VL_LONG=1: a million requests.

load lib/live
load lib/fault

setup() { requires ab cc; }

hundred_vhosts() { vhosts 100; }

vhosts() { # <number>
  seq "$1" | awk -v port="$(httpd_port)" -v site="$HTTPD_ROOT/htdocs/a" \
    '{ printf "<VirtualHost 127.0.0.1:%s>\nServerName m%d.test:%s\nDocumentRoot \"%s\"\n</VirtualHost>\n", port, $1, port, site }'
}

# Makes requests to each of the vhosts FIRST to LAST, four at a time. Prints how many were
# answered, and how many of these not with 2xx.
ask_all() { # <requests> <first> <last> <option of ab>...
  seq "$2" "$3" | xargs -P 4 -I @ ab -q -n "$1" -c 8 "${@:4}" -H 'Host: m@.test' "http://127.0.0.1:$(httpd_port)/page.html" 2>&1 |
    awk '/^Complete requests/ { n += $3 } /^(Non-2xx responses|Failed requests)/ { bad += $3 } END { print n + 0, bad + 0 }'
}

counted() { status_json | jq '[.vhosts[] | select(.name | startswith("m") and (startswith("main") | not)) | .requests] | add'; }

# shellcheck disable=SC2046  # one word each
memory() { memory_of $(httpd_pid) $(httpd_children); }

@test "5000 requests through 100 vhosts, a million in the long form: each is counted once, and memory is flat" {
  local each=$((${VL_LONG:-0} ? 10000 : 50)) had
  # Enough threads: the MPM closes keep-alive connections when all are busy.
  start_frail -t 'StartServers 2' -t 'ServerLimit 2' -t 'ThreadLimit 64' -t 'ThreadsPerChild 64' -t 'MaxRequestWorkers 128' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 128' \
    'VhostLimit On' 'VhostLimitQueue 1000 60s' -x "$(hundred_vhosts)"
  is "$(ask_all 40 1 100 -k)" '4000 0'
  had=$(memory)
  is "$(ask_all "$each" 1 50 -k)" "$((each * 50)) 0"
  is "$(ask_all "$each" 51 100)" "$((each * 50)) 0" "a connection for each"
  echo "# $((each * 100)) requests: $had KB before, $(memory) KB after"
  validated
  is "$(counted)" $((each * 100 + 4000))
  at_most "$(memory)" $((had * 11 / 10 + 4096)) "KB"
}

# ---- children that start and end ----------------------------------------------

children_so_far() { error_log | grep -c 'Child [0-9]* started'; }

@test "children are added under load and replaced at MaxConnectionsPerChild: each request is counted once" {
  requires event
  local each=$((${VL_LONG:-0} ? 4000 : 200)) i
  start_frail -t 'StartServers 1' -t 'ServerLimit 8' -t 'ThreadLimit 4' -t 'ThreadsPerChild 4' -t 'MaxRequestWorkers 32' -t 'MinSpareThreads 4' -t 'MaxSpareThreads 16' \
    -t 'MaxConnectionsPerChild 100' 'LogLevel mpm_event:debug' 'VhostLimit On' 'VhostLimitSlots 32' 'VhostLimitQueue 1000 60s' -x "$(hundred_vhosts)"
  for i in {1..9}; do hold_request "h$i"; done
  at_least "$(httpd_children | wc -l)" 3 "children of four threads"
  is "$(ask_all "$each" 1 20)" "$((each * 20)) 0"
  for i in {1..9}; do release_request "h$i"; done
  echo "# $((each * 20)) requests by $(children_so_far) children"
  validated
  is "$(counted) $(status_of a requests)" "$((each * 20)) 9"
  at_least "$(children_so_far)" $((each / 10)) "children"
}

# ---- many vhosts -------------------------------------------------------------

# Prints milliseconds until it serves, and KB of parent and children, with shared pages
# once.
start_costs() { # <as start_httpd>...
  local began pid
  configure_httpd "$@"
  began=${EPOCHREALTIME/./}
  launch_httpd
  printf '%d ' $(((${EPOCHREALTIME/./} - began) / 1000))
  [[ ! ${VL_SANITIZER-} ]] || { echo 0; return; }
  for pid in $(httpd_pid) $(httpd_children); do awk '/^Pss:/ { print $2 }' "/proc/$pid/smaps_rollup"; done | awk '{ n += $1 } END { print n }'
}

serves() { [[ $(get m1 / 2>/dev/null) == 200 ]]; }

# Prints the instructions that the module needs to read a configuration at the start.
# Each site has a section of its own outside of its virtual host.
config_work() { # <vhosts>
  local pid out=$BATS_TEST_TMPDIR/callgrind
  configure_httpd -m event 'VhostLimit On' 'VhostLimitCgroup off' -x "$(vhosts "$1")" \
    -x "$(seq "$1" | sed 's|.*|<VhostLimitSite m&.test>\nVhostLimitWeight 200\n</VhostLimitSite>|')"
  (detached valgrind --tool=callgrind --toggle-collect=check_config --toggle-collect=post_config --callgrind-out-file="$out.%p" \
    "$(httpd_program)" -X -f "$HTTPD_ROOT/httpd.conf") >"$BATS_TEST_TMPDIR/out" 2>&1 &
  pid=$!
  wait_until 120 serves
  stop_httpd
  wait "$pid" || :
  sed -n 's/^summary: //p' "$out".* | sort -n | tail -1
  rm -f "$out".*
}

@test "the work of a start grows with the number of vhosts, not with its square: instructions" {
  requires root valgrind
  [[ ! ${VL_SANITIZER-} ]] || skip "valgrind does not run a sanitizer"
  local few many
  few=$(config_work 250)
  many=$(config_work 2000)
  echo "# instructions: 250 vhosts $few, 2000 vhosts $many"
  at_least "$few" 100000 "instructions"
  at_most "$many" $((few * 10)) "instructions"
}

@test "1000 vhosts, 10000 in the long form: cost of the start and of memory" {
  requires root
  local n=$((${VL_LONG:-0} ? 10000 : 1000)) plain ours
  mkdir -p "$HTTPD_ROOT"
  read -ra plain < <(start_costs -n -x "$(vhosts "$n")")
  stop_httpd
  : >"$HTTPD_ROOT/logs/error.log"
  read -ra ours < <(start_costs 'VhostLimit On' 'VhostLimitCgroup off' -x "$(vhosts "$n")")
  echo "# $n vhosts, ms until it serves and KB: plain ${plain[*]}, with the module ${ours[*]}"
  is "$(get "m$n" /)" 200
  at_most $((ours[1] - plain[1])) $((n * 8 + 8192)) "KB more"
}
