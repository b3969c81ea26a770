# SPDX-License-Identifier: Apache-2.0
#
# The collector of the history, for the test's server and with a file of the test's own.

collector=''

# A test may mount a disk of its own.
history_path()  { printf '%s/history\n' "$BATS_TEST_TMPDIR/disk"; }
collector_log() { printf '%s/collector.log\n' "$BATS_TEST_TMPDIR"; }

# Starts the collector and waits until it has its first answer.
begin_collector() { # [<program>...]: run by it
  mkdir -p "$BATS_TEST_TMPDIR/disk"
  detached "$@" "$CTL" -s "$(control_socket)" collect --file "$(history_path)" 2>>"$(collector_log)" &
  collector=$!
  collects
}

# It blocks signals before it waits for the next minute.
collects() { wait_until 10 collector_sleeps || { cat "$(collector_log)"; return 1; }; }
collector_sleeps() { [[ $(<"/proc/$collector/wchan") == *sigtimedwait* || $(<"/proc/$collector/syscall") == "128 "* ]]; }

# Makes the collector write what was counted so far.
collect_now() {
  local before
  before=$(stat -c %y "$(history_path)")
  kill -USR1 "$collector"
  wait_until 10 written_since "$before"
}
written_since() { [[ $(stat -c %y "$(history_path)") != "$1" ]]; }  # <time>

# The same, when nothing can be written.
collect_now_in_vain() {
  kill -USR1 "$collector"
  wait_until 30 test -s "$(collector_log)"
  wait_until 30 no_signal_pending
  collects
}
no_signal_pending() { local pending; pending=$(sed -n 's/^ShdPnd:\t//p' "/proc/$collector/status") && ! ((0x$pending)); }

end_collector() {
  local pid=$collector rc=0
  [[ -n $pid ]] || return 0
  collector=''
  kill -TERM "$pid" 2>/dev/null || return 0
  wait "$pid" || rc=$?
  is "$rc" 0 "status of the collector"
}

kill_collector() {
  kill -KILL "$collector"
  wait_until 20 gone "$collector"
}

# A figure of a site, summed over all minutes of the file.
history_of() { ctl history "$1.test" --file "$(history_path)" --json --since 7d | jq "[.minutes[].$2] | add // 0"; }  # <vhost> <figure>

# The same of several sites, or of the server.
history_sum() { # <figure> <site or --json>...
  local figure=$1 site
  shift
  for site; do ctl history "$site" --file "$(history_path)" --since 7d --json | jq "[.minutes[].$figure] | add"; done | jq -s add
}
