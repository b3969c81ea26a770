#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# As many child processes accept as the server has processors. Here it has one.

load lib/live

export LOG_MAY_SAY='exit signal Killed'
export VHOSTLIMIT_TEST_STATE=engaged    # in a dormant server the MPM of each child process accepts
THREE=(-t 'StartServers 3' -t 'ServerLimit 6' -t 'ThreadsPerChild 8' -t 'ThreadLimit 8'
  -t 'MinSpareThreads 8' -t 'MaxSpareThreads 48' -t 'MaxRequestWorkers 48')

setup() {
  requires event
  taskset -cp "$(sed -n 's/^Cpus_allowed_list:\s*\([0-9]*\).*/\1/p' /proc/self/status)" "$BASHPID" >/dev/null
}

# Prints the children that wait for new connections: a listening socket is in the epoll set of
# their acceptor, with EPOLLEXCLUSIVE.
accepting() { local pid; for pid in $(httpd_children); do ! listens "$pid" || echo "$pid"; done; }
listens() { grep -qs '^tfd:.* events: 1[0-9a-f]\{7\} ' "/proc/$1/fdinfo/"*; }   # <pid>
one_accepts() { [[ $(accepting) =~ ^[0-9]+$ && $(accepting) != "${1:-}" ]]; }    # [pid of the old]
another_accepts() { accepting | grep -vx "$1" >/dev/null; }                         # <pid of the first>
n_accept() { (($(accepting | wc -l) == $1)); }                                   # <number>

start_three() { start_httpd -m event "${THREE[@]}" 'VhostLimit On' "$@"; wait_until 10 one_accepts; }

@test "one of three child processes accepts, and serves all" {
  local first
  start_three 'LogFormat "%P" pid' "CustomLog \"$HTTPD_ROOT/logs/pids\" pid"
  first=$(accepting)
  at_least "$(httpd_children | wc -l)" 3 "children"
  : >"$HTTPD_ROOT/logs/pids"
  for _ in {1..20}; do get a /page.html; done | sort | uniq -c | xargs >"$BATS_TEST_TMPDIR/codes"
  is "$(<"$BATS_TEST_TMPDIR/codes")" '20 200'
  is "$(sort -u "$HTTPD_ROOT/logs/pids")" "$first" "the children that served"
}

@test "each processor has a child process that accepts" {
  taskset -cp "$(sed -n 's/^Cpus_allowed_list:\s*//p' /proc/1/status)" "$BASHPID" >/dev/null
  (($(nproc) == 2)) || skip "not two processors: $(nproc)"
  start_httpd -m event "${THREE[@]}" 'VhostLimit On'
  wait_until 10 n_accept 2
}

@test "another child process accepts in place of the first when a quarter of its threads are left" {
  local first second i
  start_three
  first=$(accepting)
  for i in {1..6}; do hold_request "h$i"; done
  is "$(holder_of h1)" "$first"
  wait_until 5 one_accepts "$first"
  time_passes 500             # all that stood by were woken
  second=$(accepting)
  like "$second" '^[0-9]+$' "children that accept"
  [[ $second != "$first" ]]
  is "$(get b /)" 200
  release_all
  time_passes 500
  is "$(accepting)" "$second" "children that accept"
}

@test "requests of sites in DryRun do not wait for threads of one child process while others have some" {
  requires ab
  local most
  start_three 'VhostLimit DryRun' 'LogFormat "%P" pid' "CustomLog \"$HTTPD_ROOT/logs/pids\" pid"
  # ab opens its other connections after its first response.
  ab -q -r -n 400 -c 24 -H 'Host: a.test' "http://127.0.0.1:$(httpd_port)/cgi/nap.sh" >"$HTTPD_ROOT/ab" 2>&1
  like "$(<"$HTTPD_ROOT/ab")" $'\nFailed requests: *0\n'
  most=$(sort "$HTTPD_ROOT/logs/pids" | uniq -c | sort -nr | awk 'NR == 1 { print $1 }')
  at_most "$most" 250 "of 400 requests by one of three child processes"
}

@test "another child process accepts when the acceptor of the first hangs" {
  local first
  start_three
  first=$(accepting)
  kill -STOP "$first"
  is "$(get a /page.html -m $((10 * SLOWER)))" 200
  kill -CONT "$first"
  wait_until 10 one_accepts
  is "$(get a /page.html)" 200
}

@test "another child process accepts when the first is killed" {
  local first
  start_three
  first=$(accepting)
  kill -KILL "$first"
  is "$(get a /page.html -m $((10 * SLOWER)))" 200
  wait_until 10 one_accepts "$first"
}

@test "another child process accepts when the first has few descriptors left" {
  local first client i
  start_three 'KeepAliveTimeout 100'
  prlimit --nofile=220:220 -p "$(httpd_pid)"
  restart_httpd
  wait_until 10 one_accepts
  first=$(accepting)
  for i in {1..60}; do
    exec {client}<>"/dev/tcp/127.0.0.1/$(httpd_port)"
    printf 'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n' >&"$client"
  done
  wait_until 5 another_accepts "$first"
}

@test "one child process accepts after a graceful restart, and none of its requests fails" {
  local before
  start_three
  before=$(accepting)
  begin_crowd many 100 a /page.html
  graceful_httpd
  is "$(crowd_got many)" '100 200'
  wait_until 20 one_accepts "$before"
}
