#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Ten thousand vhosts that have all been asked for: how long a page takes, and
# how long it holds the lock; and vhostlimitctl. One server for all tests.

load lib/live
load lib/control
export ONE_SERVER=yes

vhosts=10000

setup_file() {
  many_vhosts >"$BATS_FILE_TMPDIR/many.conf"
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off' -x "Include \"$BATS_FILE_TMPDIR/many.conf\""
  ask_all
}

many_vhosts() {
  local i port
  port=$(httpd_port)
  for ((i = 1; i <= vhosts; i++)); do
    printf '<VirtualHost 127.0.0.1:%s>\nServerName shop%d.example\nDocumentRoot "%s/htdocs/a"\n</VirtualHost>\n' \
      "$port" "$i" "$HTTPD_ROOT"
  done
}

teardown_file() { end_server; }

# On twenty connections, five hundred each.
ask_all() {
  local first
  for ((first = 1; first <= vhosts; first += 500)); do
    ask_for "$first" $((first + 499)) | raw >/dev/null
  done
}

ask_for() { # <first> <last>
  local i
  for ((i = $1; i < $2; i++)); do
    printf 'GET /page.html HTTP/1.1\r\nHost: shop%d.example\r\n\r\n' "$i"
  done
  printf 'GET /page.html HTTP/1.1\r\nHost: shop%d.example\r\nConnection: close\r\n\r\n' "$2"
}

# The shortest of five, in milliseconds.
fastest() { # <query>
  local n
  for ((n = 0; n < 5; n++)); do
    web -o /dev/null -w '%{time_total}\n' "$(url status "/vhostlimit$1")"
  done | sort -n | awk 'NR == 1 { print int($1 * 1000) }'
}

@test "all ten thousand have been asked for, and are on the page" {
  is "$(status_json | jq '[.vhosts[] | select(.requests > 0)] | length')" "$vhosts"
  is "$(web "$(url status /vhostlimit)" | grep -c '^<tr><td>')" $((vhosts + 4))
}

@test "the page takes less than 200 ms" {
  local ms
  ms=$(fastest '')
  echo "# the page of $vhosts vhosts was served in $ms ms" >&3
  at_most "$ms" 199 "milliseconds"
}

@test "the page holds the lock for less than 1 ms in all" {
  local n least
  least=$(for ((n = 0; n < 5; n++)); do status_json | jq .held_us; done | sort -n | sed -n 1p)
  echo "# and held the lock for $least us" >&3
  at_least "$least" 1 "microseconds"
  at_most "$least" 999 "microseconds"
}

@test "?json and ?prometheus are served within a second" {
  at_most "$(fastest '?json')" 1000 "milliseconds of ?json"
  at_most "$(fastest '?prometheus')" 1000 "milliseconds of ?prometheus"
}

# Milliseconds of CPU time and of time that a command takes.
ctl_times() { # <word>...
  local TIMEFORMAT='%3U %3S %3R'
  { time ctl "$@" >"$BATS_TEST_TMPDIR/said"; } 2>&1 | awk '{ print int(1000 * ($1 + $2)), int(1000 * $3) }'
}

@test "vhostlimitctl lists them all, and one of them, in a moment" {
  requires root
  local command cpu ms
  for command in 'set shop7.example weight=3' 'show shop7.example' 'explain shop7.example' top list; do
    # shellcheck disable=SC2086  # words they are
    read -r cpu ms < <(ctl_times $command)
    echo "# vhostlimitctl $command: $ms ms, of CPU time $cpu ms" >&3
    at_most "$cpu" 5000 "milliseconds of CPU time of $command"
  done
  is "$(wc -l <"$BATS_TEST_TMPDIR/said")" $((vhosts + 5)) "lines of list"
  grep -qE '^shop7\.example:[0-9]+ .* 3\* ' "$BATS_TEST_TMPDIR/said"
}
