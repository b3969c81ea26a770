#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Shortage of descriptors, threads, shared memory and cgroups. Apache serves,
# VhostLimitOnError decides about requests that cannot be counted, and the shared memory
# stays valid.

load lib/live
load lib/fault
load lib/control

export LOG_MAY_SAY='exit signal Killed|VL0002|VL0003|VL0004|VL0008|VL0020|VL0024|VL0035|VL0046'

setup() { requires cc; }
teardown() {
  [[ ! -s $BATS_TEST_TMPDIR/logger.pid ]] || kill -CONT "$(<"$BATS_TEST_TMPDIR/logger.pid")" 2>/dev/null || :
  end_server
}

new_children() {
  local old
  mapfile -t old < <(httpd_children)
  kill -KILL "${old[@]}"
}

answers() { [[ $(get "$1" /page.html --max-time "$SLOWER" 2>/dev/null) == "$2" ]]; }  # <vhost> <status>

# A vhost with VhostLimitConcurrency 1 and three queued requests.
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
  start_frail -m "$1" 'VhostLimit On' "VhostLimitQueue 100 $((10 * SLOWER))s" -v 'b VhostLimitConcurrency 1'
  for what in "${@:2}"; do
    runs_short "$what"
    : >"$HTTPD_ROOT/logs/error.log"
    new_children
    wait_until 20 error_log_has VL0024
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

@test "event: a child without descriptors or a thread for its acceptor serves with limits" {
  requires event
  without event eventfd thread
}

@test "worker: a child without descriptors or a thread for its acceptor serves with limits" {
  requires worker
  without worker epoll thread
}

@test "prefork: without descriptors no child accepts, until there are some" {
  requires prefork
  stay_engaged  # in a dormant server they accept themselves
  start_frail -m prefork 'VhostLimit On' "VhostLimitQueue 100 $((10 * SLOWER))s" -v 'b VhostLimitConcurrency 1'
  runs_short eventfd
  new_children
  wait_until 20 error_log_has VL0024
  begin_request patient
  has_enough eventfd
  is "$(answer_of patient)" 200 "the request that arrived meanwhile"
  limits_hold
  validated
}

@test "a child without a rescue process says so and serves, and its death loses only what it queued" {
  stay_engaged  # a dormant server starts none
  start_frail 'VhostLimit On' "VhostLimitQueue 100 $((10 * SLOWER))s" -v 'b VhostLimitConcurrency 1'
  runs_short clone
  new_children
  wait_until 20 error_log_has VL0046
  wait_until 20 answers a 200
  limits_hold
  hold_request last b
  begin_request lost b /page.html
  wait_until 20 status_is b waiting 1
  has_enough clone
  new_children
  is "$(answer_of lost)" 000 "the request that was queued in the dead child"
  wait_until 20 answers a 200
  is "$(status_of b running) $(status_of b waiting)" '0 0'
  validated
}

@test "no descriptors for shared memory: the start fails with a message" {
  start_frail 'VhostLimit On'
  stop_httpd
  runs_short eventfd
  LD_PRELOAD=$BATS_FILE_TMPDIR/fail_syscalls.so try "$(httpd_program)" -f "$HTTPD_ROOT/httpd.conf" -k start
  wait_until 10 error_log_has 'Too many open files: VL0002'
}

@test "no descriptors for the sockets between children: the start fails with a message" {
  start_frail 'VhostLimit On'
  stop_httpd
  runs_short socketpair
  LD_PRELOAD=$BATS_FILE_TMPDIR/fail_syscalls.so try "$(httpd_program)" -f "$HTTPD_ROOT/httpd.conf" -k start
  wait_until 10 error_log_has 'Too many open files: VL0035'
}

# ---- connections from other children --------------------------------------------

descriptors_of() { find "/proc/$1/fd" -mindepth 1 | wc -l; }     # <pid>
are_full() { (($(error_log | grep -c VL0033) >= $1)); }           # <children>

# Runs as the process's user: root in a container may not change the limits of other users'
# processes.
set_descriptor_limit() { # <pid> <descriptors>
  local as=()
  ((EUID != 0)) || as=(setpriv "--reuid=$(httpd_user)" "--regid=$(id -g "$(httpd_user)")" --clear-groups)
  "${as[@]}" prlimit --pid "$1" --nofile="$2:"
}

child_beside() { httpd_children | grep -vx "$1"; }                # <pid>

@test "event: a child short of descriptors receives transferred connections when it has some" {
  requires event
  local old new
  start_frail -t 'StartServers 1' -t 'ServerLimit 4' -t 'ThreadLimit 8' -t 'ThreadsPerChild 8' -t 'MaxRequestWorkers 8' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 8' \
    'VhostLimit On' 'VhostLimitQueue 1000 60s' -v 'b VhostLimitConcurrency 1'
  old=$(httpd_children)
  hold_request busy b
  begin_crowd waiting 100 b /page.html
  wait_until 20 status_is b waiting 100
  runs_short stuck
  wait_until 10 test -e "$SHORT/stalled.$old"
  graceful_httpd
  wait_until 10 child_beside "$old"
  new=$(child_beside "$old")
  wait_until 10 test -e "$SHORT/stalled.$new"
  set_descriptor_limit "$new" $(($(descriptors_of "$new") + 8))
  has_enough stuck
  wait_until 20 are_full 1
  set_descriptor_limit "$new" 1000
  release_request busy
  is "$(crowd_got waiting)" '100 200'
  validated
}

@test "worker: a child without descriptors closes an idle connection for a new one" {
  requires worker
  local child kept_pid kept=$BATS_TEST_TMPDIR/kept
  start_frail -m worker -t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadLimit 16' -t 'ThreadsPerChild 16' -t 'MaxRequestWorkers 16' \
    -t 'MinSpareThreads 1' -t 'MaxSpareThreads 16' 'VhostLimit On' 'KeepAliveTimeout 60' \
    '<Directory "/">' 'AllowOverride None' '</Directory>' \
    "<Directory \"$HTTPD_ROOT\">" 'AllowOverride None' '</Directory>'     # .htaccess would take the free descriptor
  child=$(httpd_children)
  exec_packets --kept 8 "$BATS_TEST_TMPDIR/go" 'GET /page.html HTTP/1.1\r\nHost: a.test\r\n\r\n' >"$kept" 2>&1 3>&- 4>&- &
  kept_pid=$!
  wait_until 20 grep -q '^8 200' "$kept"
  set_descriptor_limit "$child" "$(descriptors_of "$child")"
  is "$(get status '/vhostlimit?json' -m $((15 * SLOWER)))" 200 "a page that needs no file"
  kill "$kept_pid"; wait "$kept_pid" || :
}

@test "a quiescing child keeps its queued connections until they can be transferred" {
  requires event
  start_frail -t 'StartServers 1' -t 'ServerLimit 4' -t 'ThreadLimit 8' -t 'ThreadsPerChild 8' -t 'MaxRequestWorkers 8' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 8' \
    'VhostLimit On' "VhostLimitQueue 1000 $((40 * SLOWER))s" -v 'b VhostLimitConcurrency 1'
  hold_request busy b
  begin_crowd waiting 100 b /page.html
  wait_until 20 status_is b waiting 100
  runs_short pass
  graceful_httpd
  release_request busy
  is "$(crowd_got waiting)" '100 200'
  validated
}

@test "prefork: children without a descriptor leave connections to others, or wait for one" {
  requires prefork
  local children
  stay_engaged  # in a dormant server they accept themselves
  start_frail -m prefork 'VhostLimit On' "VhostLimitQueue 100 $((10 * SLOWER))s"
  is "$(get a /)" 200
  mapfile -t children < <(httpd_children)
  runs_short dup
  wait_until 20 are_full $((${#children[@]} - 1))
  begin_request patient
  has_enough dup
  is "$(answer_of patient)" 200
  validated
}

# ---- accounts ----------------------------------------------------------------

# Prints virtual hosts. With four sites of its own, the first start has memory for 1028
# more.
many() { # <name> <number>
  seq "$2" | awk -v name="$1" -v port="$(httpd_port)" -v site="$HTTPD_ROOT/htdocs/a" \
    '{ printf "<VirtualHost 127.0.0.1:%s>\nServerName %s%d.test:%s\nDocumentRoot \"%s\"\n</VirtualHost>\n", port, name, $1, port, site }'
}

@test "more sites than shared memory has accounts: a restart continues in new shared memory" {
  local few=('VhostLimit On' 'VhostLimitCgroup off' 'GracefulShutdownTimeout 30')
  start_frail "${few[@]}"
  configure_frail "${few[@]}" -x "$(many m 1028)"
  graceful_httpd
  is "$(error_log | grep -c VL0005)" 0
  hold_request old m1028
  is "$(get a /) $(get m1 /)" '200 200'
  configure_frail "${few[@]}" -x "$(many k 1027)"
  graceful_httpd
  is "$(error_log | grep -c VL0005) $(status_of a requests)" '0 1' "one site less: there is room, and counts of remaining sites are kept"
  configure_frail "${few[@]}" -x "$(many n 1028)"
  graceful_httpd
  is "$(error_log | grep -c 'VL0005.*1032 sites')" 1
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
  error_log_has 'Too many open files: VL0002'
  settles a requests 1
  is "$(error_log | grep -c VL0003)" 2 "vhosts without room"
}

# Makes a request of each m vhost and prints the statuses with their counts.
statuses_of_m() { web -o /dev/null -w '%{http_code}\n' "http://m[1-1030].test:$(httpd_port)/page.html" | sort | uniq -c | xargs; }

@test "sites without an account and no memory: VhostLimitOnError open serves them" {
  no_more_room open
  is "$(statuses_of_m)" '1030 200'
  validated
}

@test "sites without an account and no memory: VhostLimitOnError closed refuses them only" {
  no_more_room closed
  is "$(statuses_of_m)" '1028 200 2 429'
  has_enough "eventfd.$(httpd_pid)"
  graceful_httpd
  is "$(statuses_of_m)" '1030 200'
  validated
}

# ---- children ----------------------------------------------------------------

# Two children may be alive at a time, so shared memory has four slots for children. Three
# of them belong to other live processes.
start_crowded() { # <open | closed>
  squatters=()
  local i
  for i in 1 2 3; do
    timeout $((120 * SLOWER)) tail -f /dev/null 3>&- 4>&- &
    squatters+=($!)
  done
  start_frail -t 'StartServers 2' -t 'ServerLimit 2' -t 'ThreadLimit 8' -t 'ThreadsPerChild 8' -t 'MaxRequestWorkers 16' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 16' \
    "ValidateSquat ${squatters[*]}" 'VhostLimit On' 'VhostLimitCgroup off' "VhostLimitOnError $1" -v 'c VhostLimit Off'
  wait_until 10 error_log_has 'VL0008.*no place'
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

@test "a child without a slot in shared memory: VhostLimitOnError open serves its requests" {
  requires event
  start_crowded open
  is "$(got_of_a)" 200
  leave_places
}

@test "a child without a slot in shared memory: VhostLimitOnError closed refuses its requests only" {
  requires event
  start_crowded closed
  error_log_has "VL0008: this child's requests are refused"
  is "$(got_of_a)" '200 503'
  is "$(get c /)" 200
  leave_places
}

# ---- stalled processes --------------------------------------------------------

@test "a limit that the kernel needs long for keeps no child process from starting" {
  requires root cgroups ctl
  local ctl_pid old
  start_two
  old=$(httpd_children | sed -n 1p)
  runs_short "slow.$(httpd_pid)"
  ctl set a.test weight=7 >"$BATS_TEST_TMPDIR/set" 2>&1 3>&- 4>&- &
  ctl_pid=$!
  time_passes 300
  kill -KILL "$old"
  wait_until 10 two_without "$old"
  gone "$ctl_pid" && fail "the limit was written"
  has_enough "slow.$(httpd_pid)"
  wait "$ctl_pid"
  is "$(status_of a weight)" 7
}
@test "an error log that is not read keeps no child process from starting, and gets its line later" {
  requires root ctl
  local ctl_pid i logger=$BATS_TEST_TMPDIR/logger
  printf '#!/bin/sh\necho $$ >"%s"\nexec cat >>"%s"\n' "$logger.pid" "$HTTPD_ROOT/logs/error.log" >"$logger"
  chmod 755 "$logger"
  start_httpd -t 'StartServers 1' -t 'ServerLimit 4' -t 'ThreadLimit 8' -t 'ThreadsPerChild 8' -t 'MaxRequestWorkers 32' -t 'MinSpareThreads 1' \
    -t 'MaxSpareThreads 32' -t 'MaxConnectionsPerChild 20' 'VhostLimit On' "ErrorLog \"|$logger\""
  wait_until 10 test -s "$logger.pid"
  kill -STOP "$(<"$logger.pid")"
  perl -MFcntl -e 'sysopen(my $f, shift, O_WRONLY | O_NONBLOCK) or die $!; 1 while defined syswrite($f, "\n" x 512)' "/proc/$(httpd_pid)/fd/2"
  ctl set a.test weight=7 >"$BATS_TEST_TMPDIR/set" 2>&1 3>&- 4>&- &
  ctl_pid=$!
  time_passes 300
  gone "$ctl_pid" && fail "the log took the line"
  for i in {1..60}; do is "$(get a / -m 10)" 200; done
  kill -CONT "$(<"$logger.pid")"
  wait "$ctl_pid"
  is "$(status_of a weight)" 7
  wait_until 10 error_log_has 'VL0031: site a.test: limits changed'
}
two_without() { (($(child_beside "$1" | wc -l) == 2)); }   # <pid>

start_two() { # <as start_frail>...: two children, all the time
  start_frail -t 'StartServers 2' -t 'ServerLimit 2' -t 'ThreadLimit 8' -t 'ThreadsPerChild 8' -t 'MaxRequestWorkers 16' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 16' \
    'VhostLimit On' "$@" -v 'b VhostLimitConcurrency 1'
  wait_until 10 children_are 2
}

@test "a stopped child that was granted a slot: others get slots, and it serves when it continues" {
  requires event
  local here there i
  start_two 'VhostLimitQueue 100 60s'
  hold_request busy b
  here=$(holder_of busy)
  there=$(httpd_children | grep -vx "$here")
  suspend "$here"
  for i in 1 2; do begin_request "far$i" b /page.html --max-time 60; done
  wait_until 20 status_is b waiting 2
  kill -CONT "$here"
  suspend "$there"
  for i in 1 2; do begin_request "near$i" b /page.html --max-time 60; done
  wait_until 20 status_is b waiting 4
  release_request busy
  is "$(answer_of near1) $(answer_of near2)" '200 200' "requests in the running child"
  is "$(status_of b waiting) $(status_of b running)" '2 0' "requests in the stopped child"
  kill -CONT "$there"
  is "$(answer_of far1) $(answer_of far2)" '200 200'
  validated
}

stall_acceptor() { # <pid>: its acceptor stalls from now on
  runs_short "stuck.$1"
  wait_until 10 test -e "$SHORT/stalled.$1"
}

resume_acceptor() { # <pid>
  test -e "$SHORT/stalled.$1" || fail "the acceptor of $1 is not stalled"
  has_enough "stuck.$1"
  wait_until 10 test ! -e "$SHORT/stalled.$1"
}

# Two requests are queued in the other child.
queue_two_in_other() { # <child that runs the request of b> <name>
  local i
  suspend "$1"
  for i in 1 2; do begin_request "$2$i" b /page.html --max-time 60; done
  wait_until 20 status_is b waiting 2
  kill -CONT "$1"
}

serves_with_stalled_acceptor_on() { # <mpm>
  local here there
  start_two -m "$1" "VhostLimitQueue 100 $((5 * SLOWER))s"
  hold_request busy b
  here=$(holder_of busy)
  there=$(httpd_children | grep -vx "$here")
  queue_two_in_other "$here" late
  stall_acceptor "$there"
  is "$(answer_of late1) $(answer_of late2)" '503 503' "requests that reached their timeout"
  resume_acceptor "$there"
  queue_two_in_other "$here" next
  stall_acceptor "$there"
  release_request busy
  is "$(answer_of next1) $(answer_of next2)" '200 200' "requests that were granted a slot"
  resume_acceptor "$there"
  validated
}

@test "event and worker: with a stalled acceptor, queued requests of its child are refused in time or served" {
  MPMS='event worker' on_each_mpm serves_with_stalled_acceptor_on
}

# shellcheck disable=SC2059  # it is to have escapes
send()  { printf "$1" >&"$line"; }                                               # <text>
receives() { is "$(timeout $((20 * SLOWER)) grep -m 1 -o 'HTTP/1.1 [0-9]*' <&"$line")" "$1"; }    # <status line>

@test "with a stalled acceptor, the next request of a keep-alive connection in its child is answered" {
  requires event
  local child line asks='GET /page.html HTTP/1.1\r\nHost: a.test\r\n\r\n'
  start_frail -t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadLimit 8' -t 'ThreadsPerChild 8' -t 'MaxRequestWorkers 8' \
    'VhostLimit On' 'KeepAliveTimeout 60' 'VhostLimitQueue 100 60s' -v 'b VhostLimitConcurrency 1'
  child=$(httpd_children)
  hold_request busy b
  begin_request waits b /page.html --max-time 60
  wait_until 20 status_is b waiting 1
  exec {line}<>"/dev/tcp/127.0.0.1/$(httpd_port)"
  send "$asks"
  receives 'HTTP/1.1 200'
  stall_acceptor "$child"
  send "$asks"
  receives 'HTTP/1.1 200'
  exec {line}>&-
  resume_acceptor "$child"
  release_request busy
  is "$(answer_of waits)" 200
  validated
}

children_are() { (($(httpd_children | wc -l) == $1)); }   # <number>

@test "a stopped child is granted as many slots as its ring holds, and uses them when it continues" {
  requires event root
  local child
  start_frail -t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadLimit 200' -t 'ThreadsPerChild 200' -t 'MaxRequestWorkers 200' \
    'VhostLimit On' 'VhostLimitSlots 500' 'VhostLimitQueue 1000 60s' -v 'b VhostLimitConcurrency 1'
  child=$(httpd_children)
  hold_request busy b
  begin_crowd many 180 b /page.html
  wait_until 20 status_is b waiting 180
  suspend "$child"
  ctl set "$(account b)" concurrency=200
  is "$(ctl --json top | jq -c '.vhosts[] | select(.name | startswith("b.")) | [.running, .waiting]')" '[129,52]' "128 are granted"
  kill -CONT "$child"
  is "$(crowd_got many)" '180 200'
  release_request busy
  validated
}

account() { printf '%s.test\n' "$1"; }   # <vhost>

# ---- cgroups -----------------------------------------------------------------

@test "no cgroup can be created: Apache serves without the limit, and the next restart creates it" {
  requires cgroups pids
  start_frail 'VhostLimit On' -v 'a VhostLimitProcesses 50'
  runs_short mkdir
  configure_frail 'VhostLimit On' -o 'a b d e' -v 'a VhostLimitProcesses 50' -v 'e VhostLimitProcesses 50'
  graceful_httpd
  error_log_has 'VL0004: site d\.test has no cgroup: .*No space left'
  error_log_has 'VL0020: site e\.test: a limit cannot be enforced: .*No space left'
  like "$(status_of e unenforced)" 'No space left'
  is "$(get d /cgi/nap.sh) $(get e /cgi/nap.sh)" '200 200'
  has_enough mkdir
  graceful_httpd
  cgroup_exists "$(httpd_cgroup)/d.test"
  validated
}

serves_without_limit() { # <what fails> <what the log says>
  start_frail 'VhostLimit On' 'VhostLimitOnError closed'
  runs_short "$1"
  configure_frail 'VhostLimit On' 'VhostLimitOnError closed' -v 'a VhostLimitProcesses 50'
  graceful_httpd
  error_log_has "VL0020: site a\\.test: a limit cannot be enforced: .*$2"
  is "$(get a /cgi/nap.sh) $(get b /cgi/nap.sh) $(get a /)" '200 200 200'
  stop_httpd
  : >"$HTTPD_ROOT/logs/error.log"
  LD_PRELOAD=$BATS_FILE_TMPDIR/fail_syscalls.so try "$(httpd_program)" -f "$HTTPD_ROOT/httpd.conf" -k start
  wait_until 10 error_log_has 'emerg.*VL0020: site a'
  configure_frail 'VhostLimit On' 'VhostLimitOnError open' -v 'a VhostLimitProcesses 50'
  LD_PRELOAD=$BATS_FILE_TMPDIR/fail_syscalls.so launch_httpd
  error_log_has 'warn.*VL0020: site a'
  is "$(get a /cgi/nap.sh)" 200
  has_enough "$1"
  graceful_httpd
  is "$(cgroup_value "$(httpd_cgroup)/a.test" pids.max)" 50
  validated
}

@test "cgroup files that cannot be written (ENOSPC): Apache serves, and a limit is an error" {
  requires cgroups pids
  serves_without_limit write 'No space left'
}

@test "cgroup files that cannot be opened (EACCES): Apache serves, and a limit is an error" {
  requires cgroups pids
  serves_without_limit open 'Permission denied'
}
