#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The prefork MPM, where one child accepts for all: queued requests and children when a
# child ends.

load lib/live

export LOG_MAY_SAY='exit signal Killed'
CROWD="VhostLimitQueue 1000 $((60 * SLOWER))s"

setup() { requires prefork; }

start_prefork() { start_httpd -m prefork -l status 'VhostLimit On' "$CROWD" -v 'b VhostLimitConcurrency 1' "$@"; }

# A request holds the only slot of b, and thirty are queued.
queue_thirty_behind() { # <name>
  hold_request "$1" b
  begin_crowd many 30 b /page.html
  settles b waiting 30
}

# Prints the children that accept. In an engaged server the acceptor watches three descriptors in one
# epoll set, other children fewer.
accepting() { local pid; for pid in $(httpd_children); do (($(watched "$pid") < 3)) || echo "$pid"; done; }
watched() { grep -c '^tfd:' "/proc/$1/fdinfo/"* 2>/dev/null | sed 's/.*://' | sort -n | tail -n 1; }   # <pid>
accepts_now() { [[ $(accepting) == [0-9]* && $(accepting) != "${1:-}" ]]; }   # [pid of the old]

workers() { web "$(url status '/server-status?auto')" | sed -n "s/^$1: //p"; }  # <BusyWorkers | IdleWorkers>
some_idle() { (($(workers IdleWorkers) > 0)); }

@test "one child accepts, and queued connections use no other child" {
  stay_engaged  # in a dormant server each child accepts
  start_prefork 'ExtendedStatus On' '<Location "/server-status">' 'SetHandler server-status' '</Location>'
  wait_until 20 accepts_now
  is "$(accepting | wc -l) $(status_of a method)" '1 socket'
  wait_until 10 some_idle
  is "$(workers BusyWorkers)" 1 "the one that is asked"
  queue_thirty_behind one
  at_most "$(httpd_children | wc -l)" 20 "children, when thirty wait"
  is "$(get a /)" 200
  release_request one
  is "$(crowd_got many)" '30 200'
}

@test "HTTP/2 connections without TLS give their processes back" {
  requires mod_http2 curl_http2
  local i
  stay_engaged
  start_prefork -l http2 'Protocols h2c http/1.1' -t 'StartServers 2' -t 'MaxRequestWorkers 2' -t 'ServerLimit 2'
  wait_until 20 accepts_now
  for i in 1 2 3; do is "$(get a / --http2-prior-knowledge --max-time 10)" 200; done
  is "$(get a / --max-time 10)" 200
}

# Lingering takes two seconds if the client keeps its side open. One child serves.
@test "a client that has announced the close does not hold its process" {
  local client since
  start_prefork -t 'StartServers 2' -t 'MaxRequestWorkers 2' -t 'ServerLimit 2'
  wait_until 20 accepts_now
  since=$SECONDS
  for _ in {1..10}; do
    exec {client}<>"/dev/tcp/127.0.0.1/$(httpd_port)"
    printf 'GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n' >&"$client"
    like "$(timeout 30 cat <&"$client")" '^HTTP/1.1 200 '
  done
  at_most $((SECONDS - since)) 10 "seconds for ten requests"
}

@test "several listeners: connections of each are queued and served" {
  start_prefork -x "Listen 127.0.0.1:$(free_port two)"
  queue_thirty_behind one
  is "$(get a /) $(web -o /dev/null -w '%{http_code}' "http://127.0.0.1:$(free_port two)/")" '200 200'
  release_request one
  is "$(crowd_got many)" '30 200'
}

@test "a single process serves as plain Apache does, and requests are queued with it" {
  start_prefork -t 'StartServers 1' -t 'MaxRequestWorkers 1' -t 'ServerLimit 1'
  is "$(get a /) $(get b /) $(status_of a method)" '200 200 thread'
}

@test "a killed acceptor: another child accepts and serves its queue, thread waiters stay, the counts are right" {
  local victim
  stay_engaged  # a child that runs a request would still watch the sockets
  start_prefork
  queue_thirty_behind one
  victim=$(accepting)
  kill -KILL "$victim"
  wait_until 10 accepts_now "$victim"
  settles b waiting 30
  is "$(status_of b running) $(get a / -m 8)" '1 200'
  begin_request again b /page.html
  settles b waiting 31
  release_request one
  is "$(answer_of one) $(answer_of again)" '200 200'
}

# Apache kills the program of such a request, often before it is executed.
@test "a request body that is too large for a program: the end of the program releases no slot" {
  start_prefork -v 'a LimitRequestBody 6'
  local i
  for ((i = 0; i < 30; i++)); do is "$(get a /cgi/echo.sh -d 'more than six' -m 10)" 413; done
  settles a running 0
  is "$(get a /page.html)" 200
}

@test "when all children but the acceptor are killed, queued requests are served" {
  start_prefork
  queue_thirty_behind one
  httpd_children | grep -vx "$(accepting)" | xargs kill -KILL
  is "$(crowd_got many)" '30 200'
  settles b waiting 0
  settles b running 0
}

@test "queued requests are served with MaxConnectionsPerChild 3" {
  start_prefork 'MaxConnectionsPerChild 3'
  queue_thirty_behind one
  release_request one
  is "$(crowd_got many)" '30 200'
  is "$(status_of b requests) $(status_of b refused)" '31 0'
}

@test "graceful-stop answers queued requests with 503, and all processes end" {
  local pids pid
  start_prefork
  queue_thirty_behind one
  mapfile -t pids < <(httpd_pid; httpd_children)
  kill -WINCH "${pids[0]}"
  is "$(crowd_got many)" '30 503'
  release_request one
  is "$(answer_of one)" 200
  for pid in "${pids[@]}"; do wait_until 15 gone "$pid"; done
}

@test "a stop with thirty queued requests ends every process at once" {
  local pids pid
  start_prefork
  queue_thirty_behind one
  mapfile -t pids < <(httpd_children)
  stop_httpd
  for pid in "${pids[@]}"; do wait_until 20 gone "$pid"; done
}

# The MPM's handler of this signal walks the list of listeners, at any time.
@test "children that get the stop signal repeatedly while they exit do not crash" {
  start_httpd -m prefork 'VhostLimit On' 'VhostLimitCgroup off' 'MaxConnectionsPerChild 3' \
    -t 'StartServers 20' -t 'MinSpareServers 20' -t 'MaxSpareServers 40' -t 'ServerLimit 60' -t 'MaxRequestWorkers 60'
  local round
  for ((round = 0; round < (${VL_LONG:-0} ? 8 : 3); round++)); do
    perl -e 'my $end = time + 2; my $parent = shift;
      while (time < $end) {
        open my $f, "<", "/proc/$parent/task/$parent/children" or last;
        kill "USR1", split " ", (<$f> // "");
      }' "$(httpd_pid)"
    is "$(get a /page.html)" 200 "round $round"
  done
  check_log
}
