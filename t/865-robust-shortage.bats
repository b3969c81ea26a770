#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What the kernel gives runs short: descriptors, threads, shared memory. Apache
# serves on, VhostLimitOnError decides about what cannot be counted, and then the
# shared memory is in order.

load lib/live
load lib/fault

export LOG_MAY_SAY='exit signal Killed|VL0002|VL0003|VL0008|VL0024'

setup() { requires cc; }

new_children() {
  local old
  mapfile -t old < <(httpd_children)
  kill -KILL "${old[@]}"
}

answers() { [[ $(get "$1" /page.html --max-time 1 2>/dev/null) == "$2" ]]; }  # <vhost> <status>

# A vhost that may run one, with three who wait.
limits_hold() {
  local i
  hold_request busy b
  for i in 1 2 3; do begin_request "waits$i" b /page.html; done
  wait_until 20 status_is b waiting 3
  is "$(get a /page.html)" 200
  release_request busy
  for i in 1 2 3; do is "$(answer_of "waits$i")" 200; done
}

without() { # <mpm> <what>...
  local what
  start_frail -m "$1" 'VhostLimit On' 'VhostLimitQueue 100 10s' -v 'b VhostLimitConcurrency 1'
  for what in "${@:2}"; do
    runs_short "$what"
    : >"$HTTPD_ROOT/logs/error.log"
    new_children
    wait_until 20 error_log_says VL0024
    wait_until 20 answers a 200
    limits_hold
    validated
    has_enough "$what"
  done
  new_children
  wait_until 20 answers a 200
  limits_hold
  validated
}

@test "event: a child without descriptors or a thread for its acceptor serves, and its limits hold" {
  requires event
  without event eventfd thread
}

@test "worker: the same" {
  requires worker
  without worker epoll thread
}

@test "prefork: nobody can accept for want of descriptors: it goes on when there are some" {
  requires prefork
  start_frail -m prefork 'VhostLimit On' 'VhostLimitQueue 100 10s' -v 'b VhostLimitConcurrency 1'
  runs_short eventfd
  new_children
  wait_until 20 error_log_says VL0024
  begin_request patient
  has_enough eventfd
  is "$(answer_of patient)" 200 "who came in between"
  limits_hold
  validated
}

@test "no descriptors for shared memory: the start stops, and says so" {
  start_frail 'VhostLimit On'
  stop_httpd
  runs_short eventfd
  LD_PRELOAD=$BATS_FILE_TMPDIR/short.so try "$(httpd_program)" -f "$HTTPD_ROOT/httpd.conf" -k start
  wait_until 10 error_log_says 'Too many open files: VL0002'
}

# ---- accounts ----------------------------------------------------------------

# Four of its own and so many more: 1032 are the room that the first start makes.
many() { # <name> <number>
  seq "$2" | awk -v name="$1" -v port="$(httpd_port)" -v site="$HTTPD_ROOT/htdocs/a" \
    '{ printf "<VirtualHost 127.0.0.1:%s>\nServerName %s%d.test:%s\nDocumentRoot \"%s\"\n</VirtualHost>\n", port, name, $1, port, site }'
}

@test "accounts run full, because vhosts that are gone still work: a restart goes on in new shared memory" {
  local few=('VhostLimit On' 'VhostLimitCgroup off' 'GracefulShutdownTimeout 30')
  start_frail "${few[@]}"
  configure_frail "${few[@]}" -x "$(many m 1028)"
  graceful_httpd
  is "$(error_log | grep -c VL0005)" 0
  hold_request old m1028
  is "$(get a /) $(get m1 /)" '200 200'
  configure_frail "${few[@]}" -x "$(many k 1027)"
  graceful_httpd
  is "$(error_log | grep -c VL0005) $(status_of a requests)" '0 1' "one less than before: there is room, and who stays goes on counting"
  configure_frail "${few[@]}" -x "$(many n 1028)"
  graceful_httpd
  is "$(error_log | grep -c 'VL0005.*1032 vhosts')" 1
  is "$(get n1 /) $(get n1028 /) $(get a /)" '200 200 200'
  release_request old
  settles a requests 1
  validated
}

no_more_room() { # <open | closed>
  local few=('VhostLimit On' 'VhostLimitCgroup off' "VhostLimitOnError $1" 'VhostLimitStatusCode 429')
  start_frail "${few[@]}"
  is "$(get a /)" 200
  runs_short "eventfd.$(httpd_pid)"
  configure_frail "${few[@]}" -x "$(many m 1030)" -v 'c VhostLimit DryRun'
  graceful_httpd
  error_log_says 'Too many open files: VL0002'
  settles a requests 1
  is "$(error_log | grep -c VL0003)" 2 "vhosts without room"
}

# Of all m vhosts, counted.
statuses_of_m() { web -o /dev/null -w '%{http_code}\n' "http://m[1-1030].test:$(httpd_port)/page.html" | sort | uniq -c | xargs; }

@test "more vhosts than there is room for, and no more to be had: VhostLimitOnError open lets them in" {
  no_more_room open
  is "$(statuses_of_m)" '1030 200'
  validated
}

@test "the same with closed: they are refused, the others served, until there is room" {
  no_more_room closed
  is "$(statuses_of_m)" '1028 200 2 429'
  has_enough "eventfd.$(httpd_pid)"
  graceful_httpd
  is "$(statuses_of_m)" '1030 200'
  validated
}

# ---- children ----------------------------------------------------------------

# Two children may be alive at a time, so there are four places in shared memory:
# three belong to processes that live.
start_crowded() { # <open | closed>
  squatters=()
  local i
  for i in 1 2 3; do
    sleep 120 3>&- 4>&- &
    squatters+=($!)
  done
  start_frail -t 'StartServers 2' -t 'ServerLimit 2' -t 'ThreadLimit 8' -t 'ThreadsPerChild 8' -t 'MaxRequestWorkers 16' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 16' \
    "ValidateSquat ${squatters[*]}" 'VhostLimit On' 'VhostLimitCgroup off' "VhostLimitOnError $1" -v 'c VhostLimit Off'
  wait_until 10 error_log_says 'VL0008.*no place'
}

leave_places() {
  kill "${squatters[@]}"
  wait "${squatters[@]}" || :
  new_children
  wait_until 20 answers a 200
  is "$(get a / -H 'Connection: close'; for i in {1..30}; do get a / -H 'Connection: close'; done | sort | uniq -c | xargs)" '200
30 200' "when there are places again"
  validated
}

got_of_a() { for i in {1..60}; do get a /page.html; done | sort -u | xargs; }

@test "a child for which shared memory has no place: VhostLimitOnError open lets its requests in" {
  requires event
  start_crowded open
  is "$(got_of_a)" 200
  leave_places
}

@test "the same with closed: its requests are refused, those of the other child served" {
  requires event
  start_crowded closed
  is "$(got_of_a)" '200 503'
  is "$(get c /)" 200
  leave_places
}

