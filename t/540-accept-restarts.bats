#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Queued connections when child processes are restarted, stopped and killed.

load lib/live

export LOG_MAY_SAY='exit signal Killed'
CROWD="VhostLimitQueue 1000 $((40 * SLOWER))s"

# A request holds the only slot of b, and fifty are queued.
queue_fifty_behind() { # <name>
  hold_request "$1" b
  begin_crowd many 50 b /page.html
  settles b waiting 50
}

queued_connections_survive_restarts_on() { # <mpm>
  start_httpd -m "$1" 'VhostLimit On' "$CROWD" -v 'b VhostLimitConcurrency 1'
  queue_fifty_behind one
  graceful_httpd
  settles b waiting 50
  graceful_httpd
  settles b waiting 50
  release_request one
  is "$(crowd_got many)" '50 200'
  is "$(answer_of one)" 200
  settles b waiting 0
  is "$(status_of b requests) $(status_of b refused)" '51 0'
}

@test "on each MPM queued connections are served after two graceful restarts" {
  on_each_mpm queued_connections_survive_restarts_on
}

@test "queued connections are served when children reach MaxConnectionsPerChild" {
  start_httpd 'VhostLimit On' "$CROWD" 'MaxConnectionsPerChild 10' -v 'b VhostLimitConcurrency 1'
  queue_fifty_behind one
  begin_crowd more 50 c /page.html
  is "$(crowd_got more)" '50 200' "another vhost"
  release_request one
  is "$(crowd_got many)" '50 200'
  settles b waiting 0
  is "$(status_of b requests) $(status_of b refused)" '51 0'
}

@test "a hundred requests are served with VhostLimitConcurrency 2 and MaxConnectionsPerChild 15" {
  start_httpd 'VhostLimit On' "$CROWD" 'MaxConnectionsPerChild 15' -v 'b VhostLimitConcurrency 2'
  is "$(crowd 100 'GET /page.html HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n' | xargs)" '100 200'
  settles b requests 100
}

@test "a graceful restart that removes a vhost answers its queued connections" {
  start_httpd 'VhostLimit On' "$CROWD" -v 'b VhostLimitConcurrency 1'
  queue_fifty_behind one
  configure_httpd 'VhostLimit On' -o 'a c'
  graceful_httpd
  is "$(crowd_got many)" '50 200'
}

# Apache waits ten seconds for busy threads, so the request ends during the restart.
restart_while_released() {
  restart_httpd 3>&- 4>&- &
  wait_until 10 no_new_connections
  release_request one
  wait $!
}
no_new_connections() { ! (: <"/dev/tcp/127.0.0.1/$(httpd_port)") 2>/dev/null || error_log_has 'SIGHUP received'; }

@test "a full restart closes fifty queued connections, resets the counts, and the server serves" {
  start_httpd 'VhostLimit On' "$CROWD" -v 'b VhostLimitConcurrency 1'
  queue_fifty_behind one
  restart_while_released
  settles b waiting 0
  settles b running 0
  is "$(get b /)" 200
}

@test "a stop with fifty queued connections ends all processes, and the port is free at once" {
  start_httpd 'VhostLimit On' "$CROWD" -v 'b VhostLimitConcurrency 1'
  queue_fifty_behind one
  local pids pid
  mapfile -t pids < <(httpd_pid; httpd_children)
  kill -TERM "${pids[0]}"
  release_request one
  for pid in "${pids[@]}"; do wait_until 10 gone "$pid"; done
  release_all
  rm -f "$HTTPD_ROOT/logs/error.log"
  launch_httpd
  is "$(get b /) $(status_of b waiting)" '200 0'
}

@test "graceful-stop answers all queued connections" {
  start_httpd 'VhostLimit On' "$CROWD" -v 'b VhostLimitConcurrency 1'
  queue_fifty_behind one
  local pids pid
  mapfile -t pids < <(httpd_pid; httpd_children)
  kill -WINCH "${pids[0]}"
  release_request one
  is "$(answer_of one)" 200
  for pid in "${pids[@]}"; do wait_until 15 gone "$pid"; done
  like "$(crowd_got many)" '^(50 200|([0-9]+ 200 )?[0-9]+ 503)$'
}

# Prints how many sockets a child has open.
sockets_of() { find "/proc/$1/fd" -lname 'socket:*' 2>/dev/null | wc -l; }   # <pid>

# The only child has a running request, so no new child can start. It transfers its queued
# connections to the next child. It would refuse them if it took the server for stopping.
@test "a child that waits for its successor refuses no queued connection, with a relative PidFile" {
  local child
  start_httpd "${ONE_CHILD[@]}" 'PidFile run/httpd.pid' 'VhostLimit On' "$CROWD" -v 'b VhostLimitConcurrency 1'
  queue_fifty_behind one
  child=$(httpd_children)
  graceful_httpd
  wait_until 10 has_transferred "$child"
  release_request one
  is "$(crowd_got many)" '50 200'
  is "$(status_of b refused)" 0
}
has_transferred() { (($(sockets_of "$1") < 50)); }   # <child>

# Twenty-five requests are queued in each of two children. The other child is stopped while
# they arrive. The first child runs the request that holds b's slot.
queue_fifty_in_two_children() {
  start_httpd -t 'StartServers 2' -t 'ServerLimit 4' -t 'ThreadLimit 16' -t 'ThreadsPerChild 16' -t 'MaxRequestWorkers 64' \
    -t 'MinSpareThreads 1' -t 'MaxSpareThreads 64' 'VhostLimit On' "$CROWD" -v 'b VhostLimitConcurrency 1'
  wait_until 10 children_are 2
  hold_request one b
  here=$(holder_of one)
  there=$(httpd_children | grep -vx "$here")
  suspend "$here"
  begin_crowd far 25 b /page.html
  settles b waiting 25
  kill -CONT "$here"
  suspend "$there"
  begin_crowd near 25 b /page.html
  settles b waiting 50
  kill -CONT "$there"
}
children_are() { (($(httpd_children | wc -l) == $1)); }   # <number>
rescue_processes() {
  local child
  for child in $(httpd_children); do pgrep -x -P "$child" vl-rescue || :; done
}
all_have_rescue() { (($(rescue_processes | wc -w) == $(httpd_children | wc -l))); }

@test "the queued requests of a killed child are served by another one" {
  local here there
  queue_fifty_in_two_children
  kill -KILL "$there"
  wait_until 10 gone "$there"
  settles b waiting 50
  is "$(status_of b running)" 1
  release_request one
  is "$(answer_of one)" 200
  is "$(crowd_got near) $(crowd_got far)" '25 200 25 200'
  is "$(get b /) $(get a /)" '200 200'
}

@test "a killed child releases its slot to queued requests, its own and those of another child" {
  local here there
  queue_fifty_in_two_children
  kill -KILL "$here"
  wait_until 10 gone "$here"
  is "$(crowd_got far) $(crowd_got near)" '25 200 25 200'
  is "$(answer_of one)" 000
  settles b waiting 0
  settles b running 0
  is "$(get b /) $(get a /)" '200 200'
}

@test "all children and their rescue processes killed: the queued connections are lost, and the counts return to 0" {
  requires event
  start_httpd 'VhostLimit On' "$CROWD" -v 'b VhostLimitConcurrency 1'
  queue_fifty_behind one
  wait_until 10 all_have_rescue
  # The rescue processes first. xargs starts one program for all.
  { rescue_processes; httpd_children; } | xargs kill -KILL
  is "$(crowd_got many)" '50 none'
  settles b running 0
  settles b waiting 0
  is "$(get b /)" 200
}

# ---- descriptors and idle connections ------------------------------------------

# Counts descriptors without those for the groups' CPU time, which stay open.
descriptors() { find "/proc/$(httpd_children)/fd" -mindepth 1 ! -lname '/sys/fs/cgroup/*' 2>/dev/null | wc -l; }
no_sockets_but()  { (($(sockets_of "$(httpd_children)") <= $1)); }
few_descriptors() { (($(descriptors) <= $1)); }

@test "five hundred connections of all kinds leave no descriptor open" {
  start_httpd "${ONE_CHILD[@]}" 'VhostLimit On' 'VhostLimitQueue 20 300ms' -v 'b VhostLimitConcurrency 1'
  local before listening request='GET /page.html HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n'
  listening=$(sockets_of "$(httpd_children)")
  crowd 50 "$request"
  settles b running 0
  wait_until 20 no_sockets_but "$listening"
  before=$(descriptors)
  crowd 200 "$request"
  hold_request one b
  crowd 100 "$request"
  release_request one
  crowd 100 'garbage\r\n\r\n'
  packets --idle 100 0 'GET / HTTP/1.1\r\nHost: b'
  settles b running 0
  wait_until 20 few_descriptors "$before"
}

idle() { # <number> <text>   holds them open until the test ends
  exec_packets --idle "$1" 60 "$2" >"$BATS_TEST_TMPDIR/idle" 3>&- 4>&- &
  idle_pid=$!
  wait_until 10 grep -q open "$BATS_TEST_TMPDIR/idle"
}

@test "four hundred connections that send nothing do not delay other connections" {
  local idle_pid
  start_httpd 'VhostLimit On'
  idle 400 ''
  is "$(get a / -m 5) $(get b / -m 5)" '200 200'
  is "$(crowd 50 'GET / HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n' | xargs)" '50 200'
  kill "$idle_pid"
}

@test "four hundred connections with half a head do not delay other connections" {
  local idle_pid
  start_httpd 'VhostLimit On'
  idle 400 'GET / HTTP/1.1\r\nHost: b.t'
  is "$(get a / -m 5) $(get b / -m 5)" '200 200'
  is "$(crowd 50 'GET / HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n' | xargs)" '50 200'
  is "$(status_of b waiting) $(status_of b running)" '0 0'
  kill "$idle_pid"
}

three_restarts() {
  for _ in 1 2 3; do sleep 1; echo "${EPOCHREALTIME/./}" >"$BATS_TEST_TMPDIR/restarted"; graceful_httpd; done
}

@test "the queue timeout and the logged waiting time continue through restarts" {
  local took wait_us begun
  start_httpd 'VhostLimit On' 'VhostLimitQueue 100 5s' 'LogLevel info' -v 'b VhostLimitConcurrency 1'
  hold_request one b
  begin_request other b /sub/
  settles b waiting 1
  three_restarts 3>&- 4>&- &
  local restarts=$!
  begun=${EPOCHREALTIME/./}
  took=$(milliseconds get b /page.html)
  is "$(answer_of other)" 503
  wait "$restarts"
  at_least "$took" 4800 milliseconds
  at_most "$took" $((($(<"$BATS_TEST_TMPDIR/restarted") - begun) / 1000 + 4500)) "milliseconds, 5000 after the last restart being too many"
  wait_us=$(access_log b | sed -n 's/.*page\.html.* wait=\([0-9]*\).*/\1/p;s/.*503.* wait=\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
  at_least "$wait_us" 4800000 "us of waiting in the log"
}

# Plain Apache does the same.
@test "event: a graceful restart closes idle keep-alive connections and serves queued ones" {
  requires event
  local kept_pid file=$BATS_TEST_TMPDIR/kept request='GET /page.html HTTP/1.1\r\nHost: a.test\r\n\r\n'
  start_httpd 'VhostLimit On' 'KeepAliveTimeout 30' "$CROWD" -v 'c VhostLimitConcurrency 1'
  hold_request one c
  begin_request waits c /page.html
  settles c waiting 1
  packets --kept 60 "$BATS_TEST_TMPDIR/go" "$request" >"$file" 2>&1 3>&- 4>&- &
  kept_pid=$!
  wait_until 20 grep -q ' ' "$file"
  graceful_httpd
  is "$(get b /page.html -m 3)" 200
  : >"$BATS_TEST_TMPDIR/go"
  wait "$kept_pid"
  is "$(xargs <"$file")" '60 200 60 none' "before and after"
  release_request one
  is "$(answer_of waits)" 200
}

@test "connections leave descriptors for files, whatever the number of possible children" {
  local idle_pid before codes
  before=$(ulimit -Sn)
  ulimit -Sn 1000
  start_httpd -t 'StartServers 1' -t 'ServerLimit 200' -t 'ThreadLimit 8' -t 'ThreadsPerChild 8' -t 'MaxRequestWorkers 8' \
    -t 'MinSpareThreads 1' -t 'MaxSpareThreads 8' 'VhostLimit On' 'VhostLimitCgroup off'
  ulimit -Sn "$before"
  idle 900 'GET / HTTP/1.1\r\nHost: b.t'
  codes=$(repeat 30 get a /page.html -m 5 | sort | uniq -c | xargs)
  is "$codes" '30 200'
  kill "$idle_pid"
}

# With one listener these MPMs do not poll, so a child spins unless it sleeps in accept().
restarts_without_module() { # <mpm>
  configure_httpd -m "$1" 'VhostLimit On' 'VhostLimitCgroup off'
  one_listener
  launch_httpd
  is "$(get a /page.html)" 200
  configure_httpd -m "$1" -n
  one_listener
  graceful_httpd
  is "$(get a /page.html)" 200 "without the module"
  is "$(listener_of "$(httpd_pid)")" 0 "O_NONBLOCK"
}

one_listener() { sed -i '/^Listen 127.0.0.2/d; s/127\.0\.0\.2/127.0.0.1/' "$HTTPD_ROOT/httpd.conf"; }

# Prints 4000 if accept() on the listener does not block, else 0. All processes share the
# flag.
listener_of() { # <pid>
  local inode fd flags
  inode=$(awk -v port="$(printf ':%04X$' "$(httpd_port)")" '$2 ~ port && $4 == "0A" { print $10 }' \
    /proc/net/tcp)
  for fd in "/proc/$1/fd/"*; do
    [[ $(readlink "$fd") == "socket:[$inode]" ]] || continue
    flags=$(awk '$1 == "flags:" { print $2 }' "/proc/$1/fdinfo/${fd##*/}")
    printf '%o\n' "$((flags & 04000))"
  done
}

@test "worker and prefork: after a graceful restart without the module no child spins" {
  MPMS='worker prefork' on_each_mpm restarts_without_module
}
