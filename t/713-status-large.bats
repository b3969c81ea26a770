#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Four thousand vhosts that have all been asked for: what a page costs beside one of a
# tenth of them, and how long it holds the lock; and vhostlimitctl. Two servers for all tests.

load lib/live
load lib/control
export ONE_SERVER=yes

vhosts=4000
fewer=400

# Beside it runs a server with a tenth of the vhosts, whose times are the reference.
setup_file() {
  start_many "$vhosts"
  small start_many "$fewer"
}

start_many() { # <vhosts>
  shop_vhosts "$1" >"$BATS_FILE_TMPDIR/many.conf"
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off' -x "Include \"$BATS_FILE_TMPDIR/many.conf\""
  ask_all "$1"
}

small() { on_server_named small "$@"; }         # <command>...: for the server of fewer vhosts
stop_small() { small stop_httpd; }
teardown_file() { all_of stop_small end_server; }

# Instead of that in lib/httpd.bash: so many vhosts are too much text for the shell.
no_request_runs() { no_request_runs_in_thousands; }

# Four hundred on each connection.
ask_all() { # <number>
  local first
  for ((first = 1; first <= $1; first += 400)); do
    ask_for "$first" $((first + 399)) | raw >/dev/null
  done
}

ask_for() { # <first> <last>
  local i
  for ((i = $1; i < $2; i++)); do
    printf 'GET /page.html HTTP/1.1\r\nHost: shop%d.example\r\n\r\n' "$i"
  done
  printf 'GET /page.html HTTP/1.1\r\nHost: shop%d.example\r\nConnection: close\r\n\r\n' "$2"
}

# Ten times the vhosts take about ten times as long; work for each pair of them would
# take a hundred times as long.
grows_with_vhosts() { # <what> <us of all> <us of a tenth>
  echo "# $1: $2 us with $vhosts vhosts, $3 us with $fewer" >&3
  at_most "$2" $(($3 * 35)) "us of $1, $3 us with $fewer vhosts"
}

@test "all vhosts have requests and are in ?json" {
  is "$(status_json | jq '[.vhosts[] | select(.requests > 0)] | length')" "$vhosts"
}

@test "the CPU time of a page grows in proportion to the number of vhosts, in each format" {
  local query many few
  for query in '?json' '?prometheus'; do
    many=$(page_cpu status "/vhostlimit$query")
    few=$(small page_cpu status "/vhostlimit$query")
    grows_with_vhosts "page$query" "$many" "$few"
  done
}

# It is taken for a few vhosts at a time.
@test "the page holds the lock for a small part of its time" {
  local n seconds part
  part=$(for ((n = 0; n < 9; n++)); do
    seconds=$(web -o "$BATS_TEST_TMPDIR/json" -w '%{time_total}' "$(url status '/vhostlimit?json')")
    jq -r --argjson all "$seconds" '"\(.held_us / ($all * 1000) | floor) \(.held_us)"' "$BATS_TEST_TMPDIR/json"
  done | sort -n | sed -n 1p)
  echo "# and held the lock for ${part#* } us, ${part% *} permille of the time" >&3
  at_least "${part#* }" 1 "microseconds"
  at_most "${part% *}" 100 "permille of the time"
}

# Microseconds of CPU time that a command takes.
ctl_costs() { # <word>...
  local TIMEFORMAT='%3U %3S'
  { time ctl "$@" >"$BATS_TEST_TMPDIR/said"; } 2>&1 | awk '{ print int(1000000 * ($1 + $2)) }'
}

@test "vhostlimitctl: its time grows in proportion to the number of vhosts, and top has all vhosts" {
  requires root ctl
  local command
  for command in 'set shop7.example weight=3' 'show shop7.example' 'explain shop7.example' top; do
    # shellcheck disable=SC2086  # words they are
    grows_with_vhosts "vhostlimitctl $command" "$(ctl_costs $command)" "$(small ctl_costs $command)"
  done
  ctl top | sed '1,/^SITE /d' >"$BATS_TEST_TMPDIR/said"
  is "$(wc -l <"$BATS_TEST_TMPDIR/said")" $((vhosts + 4)) "lines of top"
  grep -qE '^shop7\.example .* 3\* ' "$BATS_TEST_TMPDIR/said"
}
