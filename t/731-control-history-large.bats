#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What the history costs with a thousand sites that have all been asked for: the CPU time of
# the collector and of the server for a minute, and the size of the file after
# a whole week. Its figures are those of docs/design/015-history.md:
#
#   bats --show-output-of-passing-tests t/731-control-history-large.bats

load lib/live
load lib/control
load lib/history
export ONE_SERVER=yes

sites=1000
minutes=20

history_path() { printf '%s/run/history\n' "$HTTPD_ROOT"; }

setup_file() {
  meets root || return 0
  many_sites "$sites" >"$BATS_FILE_TMPDIR/many.conf"
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off' -x "Include \"$BATS_FILE_TMPDIR/many.conf\""
  local first
  for ((first = 1; first <= sites; first += 500)); do ask_for "$first" $((first + 499)) | raw >/dev/null; done
}

setup() { requires root ctl cc; }
teardown_file() { end_server; }

need_cc() { need_program cc; }

# Instead of that in lib/httpd.bash: so many sites are too much text for the shell.
no_request_runs() { [[ $(status_json | jq '[.vhosts[] | .running + .waiting] | add') == 0 ]]; }

many_sites() { # <number>
  local i port
  port=$(httpd_port)
  for ((i = 1; i <= $1; i++)); do
    printf '<VirtualHost 127.0.0.1:%s>\nServerName shop%d.example\nDocumentRoot "%s/htdocs/a"\n</VirtualHost>\n' "$port" "$i" "$HTTPD_ROOT"
  done
}

ask_for() { # <first> <last>: on one connection
  local i
  for ((i = $1; i < $2; i++)); do printf 'GET /page.html HTTP/1.1\r\nHost: shop%d.example\r\n\r\n' "$i"; done
  printf 'GET /page.html HTTP/1.1\r\nHost: shop%d.example\r\nConnection: close\r\n\r\n' "$2"
}

say() { echo "# $*" >&3; }

fill_week() {
  [[ -e $BATS_FILE_TMPDIR/fill ]] || cc -O2 -I"$TOP/ctl" -o "$BATS_FILE_TMPDIR/fill" "$TOP/t/lib/fill_history.c"
  "$BATS_FILE_TMPDIR/fill" "$(history_path)"
}

# 0.1 % of a CPU is 60 ms in a minute.
@test "the collector uses at most 0.1 % of a CPU, and so does the server for it" {
  local n collector_us server_us
  local collector
  begin_collector
  collect_now                           # the file is made
  collector_us=$(cpu_of "$collector") server_us=$(cpu_of "$(httpd_pid)")
  for ((n = 0; n < minutes; n++)); do collect_now; done
  collector_us=$((($(cpu_of "$collector") - collector_us) / minutes))
  server_us=$((($(cpu_of "$(httpd_pid)") - server_us) / minutes))
  say "CPU time for a minute of $sites sites: collector $collector_us us, server $server_us us; memory of the collector $(memory_of "$collector") KB"
  end_collector
  at_least "$collector_us" 100 "us"
  at_most "$collector_us" $((60000 * SLOWER)) "us of the collector"
  at_most "$server_us" $((60000 * SLOWER)) "us of the server"
}

@test "after a week the file has the size that the documentation states, and no more" {
  fill_week
  say "file: $(stat -c %s "$(history_path)") bytes, $(du -k "$(history_path)" | cut -f 1) KB on the disk"
  is "$(stat -c %s "$(history_path)")" $((4608 + 4 * (131072 + 10080 * 4608)))
  at_most "$(du -k "$(history_path)" | cut -f 1)" 183500 "KB on the disk"
  begin_collector
  collect_now
  end_collector
  is "$(stat -c %s "$(history_path)")" $((4608 + 4 * (131072 + 10080 * 4608))) "a minute later"
}

@test "vhostlimitctl history prints a week" {
  local TIMEFORMAT=%U
  fill_week
  { time ctl history shop7.example --file "$(history_path)" --since 7d --csv >"$BATS_TEST_TMPDIR/csv"; } 2>"$BATS_TEST_TMPDIR/time"
  say "history --csv of a week: $(<"$BATS_TEST_TMPDIR/time") s of CPU time"
  at_least "$(wc -l <"$BATS_TEST_TMPDIR/csv")" 10070 "lines"
  ctl history shop7.example --file "$(history_path)" --since 7d >"$BATS_TEST_TMPDIR/table"
  at_most "$(wc -l <"$BATS_TEST_TMPDIR/table")" 63 "lines of the table"
}
