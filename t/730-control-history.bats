#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# vhostlimitctl collect and history: real requests, and what the file has of them.

load lib/live
load lib/control
load lib/history
export ONE_SERVER=yes

setup_file() {
  meets root || return 0
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'c VhostLimitConcurrency 1' -v 'c VhostLimitQueue 0'
}

setup() { requires root ctl; }

teardown() { all_of end_collector look_for_leftovers; }
teardown_file() { end_server; }

need_cc()              { need_program cc; }
need_systemd_analyze() { need_program systemd-analyze; }

@test "requests, queueing, refusals and CPU time of a site are in its history, and of no other" {
  begin_collector
  repeat 5 get a / >/dev/null
  hold_request one a
  begin_request two a /page.html
  settles a waiting 1
  hold_request three c
  is "$(get c /)" 503
  collect_now
  is "$(history_of a waiting)" 1 "while one waits"
  release_all
  is "$(answer_of two)" 200
  settles a running 0
  end_collector
  is "$(history_of a requests) $(history_of a queued) $(history_of a refused)" '7 1 0'
  at_least "$(history_of a cpu_us)" 1 "us of CPU time"
  at_least "$(history_of a busy_us)" "$(history_of a cpu_us)" "us from admission to the end"
  at_least "$(history_of a wait_p99_us)" 1000 "us, the one that waited"
  is "$(history_of c requests) $(history_of c refused)" '1 1'
  is "$(history_of b requests) $(history_of b refused)" '0 0'
  is "$(history_sum requests --json)" "$(history_sum requests a.test b.test c.test main.test)" "of the server"
}

@test "a collector that is started again goes on, and one that is killed leaves a whole file" {
  begin_collector
  get b / >/dev/null
  settles b running 0
  end_collector
  begin_collector
  get b / >/dev/null
  settles b running 0
  collect_now
  kill_collector
  is "$(history_of b requests)" 2
  begin_collector
  end_collector
  is "$(history_of b requests)" 2
}

@test "counters that begin again when the server is stopped are not counted twice" {
  begin_collector
  repeat 3 get b / >/dev/null
  settles b running 0
  collect_now
  stop_httpd
  launch_httpd
  repeat 2 get b / >/dev/null
  settles b running 0
  end_collector
  is "$(history_of b requests)" 5
}

@test "while the server is down the collector waits for it, says so once, and goes on" {
  begin_collector
  stop_httpd
  collect_now_in_vain
  collect_now_in_vain
  is "$(grep -c 'the history has no figures until there is an answer' "$(collector_log)")" 1 "said"
  launch_httpd
  get b / >/dev/null
  settles b running 0
  end_collector
  like "$(<"$(collector_log)")" 'the history goes on'
  is "$(history_of b requests)" 1
}

@test "a full disk costs the figures and not the collector" {
  mkdir "$BATS_TEST_TMPDIR/disk"
  mount -t tmpfs -o size=16k tmpfs "$BATS_TEST_TMPDIR/disk"
  begin_collector
  dd if=/dev/zero of="$BATS_TEST_TMPDIR/disk/rest" bs=4k 2>/dev/null || :
  get b / >/dev/null
  collect_now_in_vain
  like "$(<"$(collector_log)")" 'No space left on device; the figures of this minute are lost'
  rm "$BATS_TEST_TMPDIR/disk/rest"
  get b / >/dev/null
  settles b running 0
  end_collector
  like "$(<"$(collector_log)")" 'the history goes on'
  is "$(history_of b requests)" 1
  umount "$BATS_TEST_TMPDIR/disk"
}

@test "a clock that is set forward and back: each minute is where the clock said, and none is counted twice" {
  requires cc
  local so step=$BATS_TEST_TMPDIR/step hours
  so=$(preload_library step_clock)
  begin_collector env LD_PRELOAD="$so" STEP="$step"
  for hours in 0 2 -3; do
    echo $((hours * 3600)) >"$step"
    get b / >/dev/null
    settles b running 0
    collect_now
  done
  echo 0 >"$step"
  end_collector
  is "$(history_of b requests)" 2 "of the past"
  echo 7200 >"$step"
  is "$(LD_PRELOAD=$so STEP=$step ctl history b.test --file "$(history_path)" --json --since 1h | jq '[.minutes[].requests] | add')" 1 "of the time that the clock was ahead"
}

@test "root's rights suffice without capabilities, as in the unit of systemd, and the file has the group's name" {
  local group collector
  group=$(id -gn "$(httpd_user)")
  begin_collector setpriv --bounding-set=-all --inh-caps=-all --regid "$group" --clear-groups --no-new-privs
  is "$(sed -n 's/^CapEff:\t//p' "/proc/$collector/status")" 0000000000000000 "capabilities"
  get b / >/dev/null
  settles b running 0
  end_collector
  is "$(history_of b requests) $(stat -c '%U %G %a' "$(history_path)")" "1 root $group 640"
}

@test "the unit of systemd is one that it takes" {
  requires systemd_analyze
  sed "s,/usr/sbin/vhostlimitctl,$CTL," "$TOP/conf/systemd/vhostlimit-history.service" >"$BATS_TEST_TMPDIR/vhostlimit-history.service"
  try systemd-analyze verify --man=no --recursive-errors=no "$BATS_TEST_TMPDIR/vhostlimit-history.service"
  is "$output" ''
  is "$status" 0
}

@test "the unit of the events is one that systemd takes, and their log is rotated" {
  local unit=$TOP/conf/systemd/vhostlimit-watch.service log
  requires systemd_analyze
  log=$(sed -n 's/^StandardOutput=append://p' "$unit")
  like "$(<"$TOP/conf/logrotate")" "$log \{"
  sed "s,/usr/sbin/vhostlimitctl,$CTL," "$unit" >"$BATS_TEST_TMPDIR/vhostlimit-watch.service"
  try systemd-analyze verify --man=no --recursive-errors=no "$BATS_TEST_TMPDIR/vhostlimit-watch.service"
  is "$status $output" '0 '
  is "$(sed -n 's/^SyslogIdentifier=//p' "$TOP"/conf/systemd/*.service | sort | xargs)" 'vhostlimit-fleet vhostlimit-history vhostlimit-watch'
}

@test "the file is the owner's to write and the group's to read, and there is one collector" {
  begin_collector
  is "$(stat -c %a "$(history_path)")" 640
  try ctl collect --file "$(history_path)"
  is "$status $output" "1 vhostlimitctl: another process writes the history $(history_path); one is enough"
}

@test "history: a table, CSV and JSON; a site by its ServerName; what it does not know" {
  begin_collector
  get b / >/dev/null
  settles b running 0
  end_collector
  try ctl history b.test --file "$(history_path)" --since 30min
  is "$status" 0
  like "$output" $'^TIME +REQ/s +CPU% +DB% +WAITING +P99ms +QUEUED +REFUSED +GONE\n[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2} +[0-9.]+ '
  try ctl history B.Test --file "$(history_path)" --csv
  is "${lines[0]}" 'time,seconds,requests,queued,refused,gone,cpu_us,busy_us,waiting,wait_p99_us,database_us'
  like "${lines[1]}" '^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:00Z,[0-9]+,1,0,0,0,'
  is "$(ctl history --json --file "$(history_path)" | jq -c .site)" null
  try ctl history none.test --file "$(history_path)"
  is "$status $output" "1 vhostlimitctl: the history has no site 'none.test'. A new site is in it after a minute"
  try ctl history --file "$BATS_TEST_TMPDIR/none"
  is "$status" 1
  like "$output" 'systemctl enable --now vhostlimit-history'
  local words
  for words in '--since 0h' '--since tomorrow' '--since 2999-01-01' '--since' '--count 1' '--csv=x' 'a b'; do
    # shellcheck disable=SC2086  # words they are
    try ctl history $words --file "$(history_path)"
    is "$status" 2 "'$words'"
  done
}

# ---- watch ---------------------------------------------------------------------

begin_watch() { # <word>...
  events=$BATS_TEST_TMPDIR/events
  detached timeout 120 "$CTL" -s "$(control_socket)" watch "$@" >>"$events" 2>&1 &
  watcher=$!
}

event_seen() { jq -es "any(.[]; $1)" "$events" >/dev/null; }   # <jq condition>

@test "watch: a line of JSON when a site begins to queue, reaches its limit and is refused, and at its end" {
  begin_watch
  hold_request one a
  begin_request two a /page.html
  wait_until 10 event_seen '.event == "queue" and .site == "a.test" and .state == "begin" and .waiting == 1'
  wait_until 10 event_seen '.event == "limit" and .site == "a.test" and .running == 1 and .concurrency == 1'
  hold_request three c
  get c / >/dev/null
  wait_until 10 event_seen '.event == "refused" and .site == "c.test" and .refused == 1'
  wait_until 10 event_seen '.event == "limited" and .site == "c.test" and .state == "begin"'
  ctl set b.test weight=7 >/dev/null
  wait_until 10 event_seen '.event == "limits_changed" and .site == "b.test" and .from.weight == 100 and .to.weight == 7'
  ctl reset b.test >/dev/null
  release_all
  wait_until 30 event_seen '.event == "queue" and .site == "a.test" and .state == "over" and .lasted_s >= 0'
  graceful_httpd
  wait_until 10 event_seen '.event == "configured" and .restarted == false and .sites == 4'
  kill -INT "$(pgrep -P "$watcher")"  # timeout of coreutils 9.7 ends with 124 when it passes a signal on
  status=0
  wait "$watcher" || status=$?
  is "$status" 0 "status after SIGINT"
  is "$(jq -r 'select(.time | test("^20[0-9-]+T[0-9:]+\\.[0-9]{3}Z$") | not)' "$events")" '' "events without a time"
}

# As conf/logrotate says.
@test "watch goes on in a file that was copied and truncated" {
  begin_watch --site b.test
  wait_until 10 changes_weight
  cp "$events" "$events.1"
  : >"$events"
  wait_until 10 changes_weight
  kill "$watcher"
  wait "$watcher" || :
  jq -e .time "$events.1" "$events" >"$BATS_TEST_TMPDIR/times"
  ctl reset b.test >/dev/null
}
weight=1
changes_weight() { ctl set b.test weight=$((weight += 1)) >/dev/null && event_seen '.event == "limits_changed"'; }

@test "watch: a child process that dies with requests" {
  begin_watch
  local pid
  hold_request one b
  wait_until 10 test -e "$events"
  time_passes 1500                      # the first answer
  pid=$(holder_of one)
  kill -KILL "$pid"
  wait_until 10 event_seen '.event == "child_lost" and .children == 1 and .requests >= 1'
  kill "$watcher"
  wait "$watcher" || :
  release_request one                   # its program has no parent now
}
export LOG_MAY_SAY='exit signal Killed'

@test "watch --site has one site's events, --count ends it, and a closed pipe too" {
  begin_watch --site C.Test --count 2
  hold_request one a
  hold_request two c
  status=0
  get c / >/dev/null
  wait "$watcher" || status=$?
  is "$status $(wc -l <"$events")" '0 2'
  is "$(jq -r .site "$events" | sort -u)" c.test
  release_all
  # shellcheck disable=SC2016  # of the inner shell
  try timeout 30 bash -o pipefail -c '"$@" | true' - "$CTL" -s "$(control_socket)" watch
  is "$status $output" '0 '
  try ctl watch --site none.test
  is "$status" 1
  try ctl watch --count x
  is "$status" 2
  try ctl -s /nowhere watch
  is "$status" 69
}
