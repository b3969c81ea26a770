#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Attacks on a.test: b.test is served meanwhile, and all connections are closed afterwards.

load lib/live

need_slowhttptest() { need_program slowhttptest; }

# Starts two children of 16 threads, without further ones.
start_steady() { start_two 'VhostLimit On' "$@"; }   # <as start_httpd>...
start_two() { # <as start_httpd>...
  start_httpd -l reqtimeout -t 'StartServers 2' -t 'ServerLimit 2' -t 'ThreadLimit 16' -t 'ThreadsPerChild 16' -t 'MaxRequestWorkers 32' \
    -t 'MinSpareThreads 1' -t 'MaxSpareThreads 32' 'RequestReadTimeout header=3 body=3' "$@"
  wait_until 10 children_are 2
  get b /page.html >/dev/null
  before=$(descriptors)
}

children_are() { (($(httpd_children | wc -l) == $1)); }   # <number>
descriptors() { local pid; httpd_children | while read -r pid; do ls "/proc/$pid/fd"; done | wc -l; }
descriptors_are_back() { (($(descriptors) <= before + 20)); }

# Fifty requests of b, one after the other, during the attack.
b_is_served() { # <seconds>: the most that one of them may take
  local times=$BATS_TEST_TMPDIR/times longest
  web -o /dev/null -H 'Connection: close' -w '%{http_code} %{time_total}\n' "$(url b '/page.html?[1-50]')" >"$times"
  is "$(cut -d' ' -f1 "$times" | sort | uniq -c | xargs)" '50 200' "status of b"
  longest=$(sort -k2n "$times" | sed -n '$s/.* //p')
  echo "# b: the longest of 50 requests took $longest s"
  at_most "${longest%.*}" "$1" "seconds of b's longest request"
}

# The attack has N connections open before b's requests begin, and goes on until they are
# answered. A flood ends by itself.
attack_on_a() { # <connections> <seconds> <command>...
  "${@:3}" >"$BATS_TEST_TMPDIR/attack" 2>&1 3>&- 4>&- &
  local attack=$!
  wait_until 20 connected "$1"
  b_is_served "$2"
  if (($1 > 0)); then
    kill -0 "$attack" || fail "the attack was over before b had its answers"
    kill "$attack"
  fi
  wait "$attack" || (($1 > 0))
  tail -n 20 "$BATS_TEST_TMPDIR/attack"
  nothing_is_left
}

connected() { (($(ss -Htn state established "sport = :$(httpd_port)" | wc -l) >= $1)); }   # <number>

nothing_is_left() {
  wait_until 30 descriptors_are_back
  wait_until 20 no_request_runs
  is "$(get a /page.html) $(get b /page.html)" '200 200'
}

slow() { exec timeout 60 slowhttptest -c 200 -r 200 -l 40 -p 3 -u "http://127.0.0.1:$(httpd_port)$1" "${@:2}"; }   # <path> <option>...

@test "slowloris: b is served beside 200 heads that never end" {
  requires slowhttptest
  start_steady
  attack_on_a 150 5 slow / -H -i 1
}

@test "slow POST: b is served beside 200 bodies that never end" {
  requires slowhttptest
  start_steady 'VhostLimitSlots 8'
  attack_on_a 150 10 slow /cgi/echo.sh -B -i 1 -s 100000
}

@test "slow read: b is served beside 200 clients that hardly read 64 MB each" {
  requires slowhttptest
  start_steady
  attack_on_a 150 3 slow /big.bin -X -n 1 -z 32 -w 512 -y 1024
}

@test "b is served beside 200 clients that do not read 64 MB, which block threads" {
  start_steady
  attack_on_a 200 3 abuse unread 200
}

@test "b is served beside 200 clients that do not read 64 MB, with sendfile" {
  start_steady 'EnableSendfile On'
  attack_on_a 200 3 abuse unread 200
}

# Makes requests of b beside idle connections. Prints values for eval: accepted= b=
# longest= (of b, seconds) had= has= keeps= (KB of all children).
beside_idle() { # <idle> <requests>
  local accepted got had has idle times=$BATS_TEST_TMPDIR/times
  had=$(memory_of_children)
  timeout 60 perl "$TOP/t/lib/abuse.pl" "$(httpd_port)" idle "$1" >"$BATS_TEST_TMPDIR/idle" 3>&- 4>&- &
  idle=$!
  wait_until 20 test -s "$BATS_TEST_TMPDIR/idle"
  (($2 == 1)) || poll_until 3 accepted_are "$1" || :     # later they are closed
  accepted=$(accepted) has=$(memory_of_children)
  web -o /dev/null -H 'Connection: close' --max-time 3 -w '%{http_code} %{time_total}\n' "$(url b "/page.html?[1-$2]")" >"$times" 2>/dev/null || :
  kill "$idle"
  wait "$idle" || :
  wait_until 30 descriptors_are_back
  got=$(sort -k2n "$times" | awk '$1 == 200 { n++ } { longest = $2 } END { printf "%d longest=%s", n, longest }')
  echo "accepted=$accepted b=$got had=$had has=$has keeps=$(memory_of_children)"
}

accepted() { echo $(($(descriptors) - before)); }
accepted_are() { (($(accepted) >= $1)); }   # <number>

@test "b is served beside 10000 connections without a byte, unlike with plain Apache" {
  local n=10000 plain accepted b longest had has keeps
  (($(ulimit -n) > n + 1000)) || skip "too few descriptors: ulimit -n is $(ulimit -n)"
  start_two -n
  plain=$(beside_idle "$n" 1)
  stop_httpd
  start_steady 'VhostLimitQueue 100 5s'
  eval "$(beside_idle "$n" 50)"
  echo "# plain: $plain"
  echo "# module: accepted=$accepted b=$b longest=$longest had=$had has=$has keeps=$keeps"
  [[ $plain =~ accepted=([0-9]+) ]]
  at_most "${BASH_REMATCH[1]}" $((n / 20)) "that plain Apache takes"
  at_least "$accepted" $((n / 10)) "that the module has taken so far"
  is "$b" 50 "answers of b beside them"
  at_most "${longest%.*}" 5 "seconds of b's longest request"
  at_most "$keeps" $((had + 8192)) "KB of all children, afterwards"
  nothing_is_left
}

@test "a flood of connections that close without a byte" {
  start_steady
  attack_on_a 0 5 abuse flood 2
  at_least "$(tail -n 1 "$BATS_TEST_TMPDIR/attack")" 100 "connections"
}

@test "a flood of connections that send random bytes and close" {
  start_steady
  attack_on_a 0 5 abuse bytes 2
  at_least "$(tail -n 1 "$BATS_TEST_TMPDIR/attack")" 100 "connections"
}

abuse() { exec timeout 60 perl "$TOP/t/lib/abuse.pl" "$(httpd_port)" "$@"; }

# shellcheck disable=SC2046  # one word each
memory_of_children() { memory_of $(httpd_children); }

@test "two thousand unknown host names go to the default vhost, and nothing grows" {
  start_steady
  (abuse names 500) >/dev/null
  local had
  had=$(memory_of_children)
  is "$(abuse names 1500)" '1500 200'
  at_most "$(memory_of_children)" $((had + 4096)) "KB of all children"
  is "$(status_json | jq '.vhosts | length')" 4 "accounts"
  settles a requests 2000
  nothing_is_left
}

@test "the body of a queued request is not read: the server's memory does not grow" {
  start_steady 'VhostLimitQueue 100 30s' -v 'a VhostLimitConcurrency 1'
  hold_request busy
  local had
  had=$(memory_of_children)
  packets 'POST /cgi/echo.sh HTTP/1.1\r\nHost: a.test\r\nContent-Length: 50000000\r\nConnection: close\r\n\r\n' @send:50000000 >"$BATS_TEST_TMPDIR/more" 3>&- 4>&- &
  settles a waiting 1
  b_is_served 5
  at_most "$(memory_of_children)" $((had + 4096)) "KB of all children"
  is "$(status_of a waiting)" 1
  release_request busy
  wait $!
  like "$(<"$BATS_TEST_TMPDIR/more")" '50000000 bytes'
  nothing_is_left
}
