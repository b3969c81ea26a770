#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Leases: established connections wait without a thread, are granted leases in order, and
# survive restarts.

load lib/live
load lib/tls
load lib/control

setup() { requires mod_ssl openssl; }

teardown() {
  local fd
  for fd in "${talks[@]}"; do exec {fd}>&-; done
  end_server
}

# Starts one child with eight threads and one slot, so that a request that waits with a
# thread would show.
start_leases() { # <as start_tls>...
  start_tls -m "${MPM:-event}" -t 'StartServers 1' -t 'ServerLimit 2' -t 'ThreadsPerChild 8' -t 'ThreadLimit 8' \
    -t 'MaxRequestWorkers 16' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 16' \
    'VhostLimit On' 'VhostLimitSlots 1' 'KeepAliveTimeout 15' "$@"
}

# ---- TLS connections by hand -------------------------------------------------

declare -gA talk=()
declare -gA talk_pid=()
declare -ga talks=()

open_connection() { # <name> [option of openssl s_client]...
  local fd dir=$BATS_TEST_TMPDIR
  mkfifo "$dir/$1.in"
  (detached openssl s_client -quiet -no_ign_eof -connect "127.0.0.1:$(tls_port)" -servername s.test "${@:2}" \
    <"$dir/$1.in" >"$dir/$1.out" 2>"$dir/$1.err") &
  talk_pid[$1]=$!
  exec {fd}>"$dir/$1.in"
  talk[$1]=$fd
  talks+=("$fd")
}

ask_for() { printf 'GET %s HTTP/1.1\r\nHost: s.test\r\n\r\n' "$2" >&"${talk[$1]}"; }   # <name> <path>

answers_to() { # <name>: how many, and which
  grep -a '^HTTP/1.1 ' "$BATS_TEST_TMPDIR/$1.out" | cut -d ' ' -f 2 | xargs
}
answers_are() { [[ $(answers_to "$1") == "$2" ]]; }     # <name> <statuses>

# The client has had one response, and the rest of its lease has expired.
open_kept() { # <name>...
  local name
  for name; do
    open_connection "$name"
    ask_for "$name" /page.html
  done
  for name; do wait_until 10 answers_are "$name" 200; done
  time_passes 100
}

is_closed() { gone "${talk_pid[$1]}"; }     # <name>

kill_client() { # <name>: the client closes
  kill -KILL "${talk_pid[$1]}"
}

# ------------------------------------------------------------------------------

@test "more keep-alive connections than threads wait for a lease" {
  local names=() i before
  start_leases
  for i in {1..12}; do names+=("kept$i"); done
  open_kept "${names[@]}"
  before=$(status_of s queued)
  hold_request one a
  ask_for kept1 /sub/
  settles s waiting 1         # the server is engaged: requests that begin before wait with their threads
  for i in "${names[@]:1}"; do ask_for "$i" /sub/; done
  settles s waiting 12
  is "$(get status /vhostlimit?json)" 200 "a page of a site that is Off, meanwhile"
  release_request one
  for i in "${names[@]}"; do wait_until 10 answers_are "$i" '200 200'; done
  is "$(($(status_of s queued) - before)) $(status_of s refused)" '12 0'
}

# The requests of the second round come over connections that wait for good in the module, and not
# in the MPM as those of the first.
@test "requests for another site than the last one, over more TLS connections than threads, wait in its queue" {
  local names=() i round head=$BATS_TEST_TMPDIR/head
  start_leases
  for i in {1..12}; do names+=("kept$i"); done
  open_kept "${names[@]}"
  for round in t s; do
    hold_request "$round" a
    printf 'GET /page.html HTTP/1.1\r\nHost: %s.test\r\n\r\n' "$round" >"$head"
    for i in "${names[@]}"; do cat "$head" >&"${talk[$i]}"; done     # one write, so one TLS record
    settles "$round" waiting 12
    is "$(get status /vhostlimit?json)" 200 "a page of a site that is Off, meanwhile"
    release_request "$round"
    settles "$round" waiting 0
    time_passes 100
  done
  for i in "${names[@]}"; do wait_until 10 answers_are "$i" '200 200 200'; done
  is "$(status_of s refused) $(status_of t refused)" '0 0'
}

own_descriptors() { # eventfds and epoll sets of the children
  local pid
  for pid in $(httpd_children); do find "/proc/$pid/fd" -lname 'anon_inode:*'; done | wc -l
}

@test "more keep-alive connections in cleartext than threads wait for a lease, with one descriptor each" {
  local kept_pid before page='GET /page.html HTTP/1.1\r\nHost: a.test\r\n\r\n'
  start_leases
  PAUSE=0.02 packets --kept 12 "$BATS_TEST_TMPDIR/go" "$page" >"$BATS_TEST_TMPDIR/kept" 2>&1 3>&- 4>&- &
  kept_pid=$!
  wait_until 20 grep -q ' ' "$BATS_TEST_TMPDIR/kept"
  time_passes 100
  hold_request one b
  before=$(own_descriptors)
  : >"$BATS_TEST_TMPDIR/go"
  wait_until 20 status_at_least a waiting 9     # a loaded Apache closes some idle connections
  is "$(own_descriptors)" "$before"
  is "$(get status /vhostlimit?json)" 200 "a page of a site that is Off, meanwhile"
  release_request one
  wait "$kept_pid"
  like "$(xargs <"$BATS_TEST_TMPDIR/kept") $(status_of a refused)" '^12 200 (9|1[0-2]) 200( [1-3] none)? 0$'
}

# Each of the first requests uses up its lease while the next one is queued, so the acceptor
# polls the connection for its second request (vl_lease_handle_input()).
@test "requests after a used-up lease are queued and answered" {
  local kept_pid dir=$BATS_TEST_TMPDIR page='GET /cgi/burn.sh HTTP/1.1\r\nHost: a.test\r\n\r\n'
  start_leases
  hold_request first
  packets --kept 4 "$dir/go" "$page" >"$dir/kept" 2>&1 3>&- 4>&- &
  kept_pid=$!
  settles a waiting 4
  release_request first
  wait_until 30 grep -q ' ' "$dir/kept"
  hold_request second b
  : >"$dir/go"
  settles a waiting 4
  release_request second
  wait "$kept_pid"
  is "$(xargs <"$dir/kept") $(status_of a refused)" '4 200 4 200 0'
}

@test "the second request after a used-up lease runs at once if nothing is queued any more" {
  local kept_pid dir=$BATS_TEST_TMPDIR
  start_leases
  hold_request first
  packets --kept 4 "$dir/go" 'GET /cgi/burn.sh HTTP/1.1\r\nHost: a.test\r\n\r\n' \
    'GET /page.html HTTP/1.1\r\nHost: a.test\r\n\r\n' >"$dir/kept" 2>&1 3>&- 4>&- &
  kept_pid=$!
  settles a waiting 4
  release_request first
  wait_until 30 grep -q ' ' "$dir/kept"
  : >"$dir/go"
  wait "$kept_pid"
  is "$(xargs <"$dir/kept") $(status_of a refused)" '4 200 4 200 0'
}

@test "KeepAliveTimeout closes a connection whose lease is used up" {
  local pid dir=$BATS_TEST_TMPDIR
  start_leases 'KeepAliveTimeout 1'
  hold_request first
  packets 'GET /cgi/burn.sh HTTP/1.1\r\nHost: a.test\r\n\r\n' >"$dir/idle" 3>&- 4>&- &
  pid=$!
  settles a waiting 1
  begin_request next a /page.html
  settles a waiting 2
  release_request first
  is "$(answer_of next)" 200
  # The client ends when the server closes.
  wait_until 10 gone "$pid"
  grep -q '^HTTP/1.1 200' "$dir/idle"
}

@test "leases are granted in the order of the requests" {
  start_leases
  open_kept first second
  hold_request one a
  mkfifo -m 666 "$HTTPD_ROOT/hold/first.fifo" "$HTTPD_ROOT/hold/second.fifo"
  ask_for second '/cgi/hold.sh?second'; settles s waiting 1
  ask_for first '/cgi/hold.sh?first'; settles s waiting 2
  release_request one
  wait_until 10 held second
  held first && fail "both run at once"
  let_go "$HTTPD_ROOT/hold/second.fifo"
  wait_until 10 held first
  let_go "$HTTPD_ROOT/hold/first.fifo"
  wait_until 10 answers_are first '200 200'
}

@test "a connection that waits for a lease is served by its quiescing child" {
  start_leases 'VhostLimitQueue 1000 40s'
  open_kept one two
  hold_request hold a
  ask_for one /sub/; ask_for two /sub/
  settles s waiting 2
  graceful_httpd
  settles s waiting 2
  release_request hold
  wait_until 10 answers_are one '200 200'
  wait_until 10 answers_are two '200 200'
  is "$(status_of s refused)" 0
}

@test "a connection that waits for a lease is served by its quiescing child after that was stalled" {
  requires root ctl
  local child
  start_leases 'VhostLimitQueue 1000 40s' 'VhostLimitSlots 4' 's: VhostLimitConcurrency 1'
  child=$(httpd_children)
  open_kept one two
  hold_request hold s
  ask_for one /sub/; ask_for two /sub/
  settles s waiting 2
  graceful_httpd
  settles s waiting 2
  suspend "$child"
  ctl set s.test concurrency=3 >"$BATS_TEST_TMPDIR/set"         # grants that the child does not take
  time_passes 2500
  kill -CONT "$child"
  wait_until 10 answers_are one '200 200'
  wait_until 10 answers_are two '200 200'
  release_request hold
}

# More connections have an event than there are workers. Event itself may crash then: its main
# thread shuts down the socket of a worker that has just destroyed the connection's pool
# (close_worker_sockets()). It does so without the module too, as this test shows with
# VhostLimit Off and a pause in place of the count of requests.
@test "the server stops at once while keep-alive connections are busy" {
  requires ab
  local ab_pid parent begun
  export LOG_MAY_SAY='exit signal Segmentation fault'
  start_leases
  ab -q -k -r -t 60 -n 10000000 -c 200 -H 'Host: a.test' "http://127.0.0.1:$(httpd_port)/page.html" >/dev/null 2>&1 3>&- 4>&- &
  ab_pid=$!
  wait_until 20 requests_of_a_are 2000
  parent=$(httpd_pid) begun=${EPOCHREALTIME/./}
  kill -TERM "$parent"
  wait_until 20 gone "$parent"
  at_most $(((${EPOCHREALTIME/./} - begun) / 1000)) $((8000 * SLOWER)) "milliseconds until it has stopped; httpd kills children after 10 s"
  kill "$ab_pid" 2>/dev/null || :
  wait "$ab_pid" || :
}
requests_of_a_are() { (($(status_of a requests) >= $1)); }   # <number>

@test "a request whose client closes leaves the queue and does not run" {
  start_leases
  open_kept gone stays
  hold_request one a
  ask_for gone '/cgi/write.sh?gone'; settles s waiting 1
  ask_for stays /sub/; settles s waiting 2
  kill_client gone
  settles s waiting 1
  release_request one
  wait_until 10 answers_are stays '200 200'
  is "$(status_of s requests)" 3 "requests that have run"
}

@test "a keep-alive connection whose client closes without a request is not queued" {
  start_leases
  open_kept stays idle
  hold_request one a
  ask_for stays /sub/; settles s waiting 1
  kill_client idle
  time_passes 300
  is "$(status_of s waiting) $(status_of s gone)" '1 0'
  release_request one
  wait_until 10 answers_are stays '200 200'
}

@test "a request that waits longer than the queue timeout is refused" {
  start_leases 'VhostLimitQueue 100 1s'
  open_kept late
  hold_request one a
  ask_for late /sub/
  wait_until 10 answers_are late '200 503'
  is "$(status_of s refused_timeout)" 1
  release_request one
}

@test "KeepAliveTimeout closes idle connections" {
  start_leases 'KeepAliveTimeout 1'
  open_kept idle
  wait_until 10 is_closed idle
}

# The first half of a head gets the connection a slot. Its thread waits for the second half
# without the slot, and then for a slot.
@test "threads of TLS connections whose heads came in halves are free after their requests" {
  local round i name
  start_leases
  for round in 1 2 3; do
    for i in 1 2 3; do
      open_connection "half$round$i"
      printf 'GET /page.html HTTP/1.1\r\nHost: s.te' >&"${talk["half$round$i"]}"
    done
    time_passes 300
    hold_request "one$round" a
    for i in 1 2 3; do printf 'st\r\n\r\n' >&"${talk["half$round$i"]}"; done
    settles s waiting 3
    release_request "one$round"
    for i in 1 2 3; do wait_until 10 answers_are "half$round$i" 200; done
  done
  for name in a b s; do is "$(get "$name" /page.html -m $((10 * SLOWER)))" 200 "$name"; done
  is "$(status_of s refused)" 0
}

@test "pipelined requests of one lease are answered in order" {
  start_leases
  open_connection many
  printf 'GET /page.html HTTP/1.1\r\nHost: s.test\r\n\r\nGET /none HTTP/1.1\r\nHost: s.test\r\n\r\nGET /sub/ HTTP/1.1\r\nHost: s.test\r\n\r\n' \
    >&"${talk[many]}"
  wait_until 10 answers_are many '200 404 200'
  counts_as 0 s true
}

@test "HTTP/2: streams of a connection without a lease wait, and are answered completely" {
  requires mod_http2 h2load
  local report
  start_leases -l http2 's: Protocols h2 http/1.1' 'VhostLimitQueue 1000 60s'
  report=$(h2load -n 400 -c 8 -m 10 --connect-to="127.0.0.1:$(tls_port)" "$(url s /page.html)")
  like "$report" 'status codes: 400 2xx'
  wait_until 10 no_request_runs
}

# A new connection whose client sends its first request some time after the handshake.
is_connected() { grep -q 'CONNECTION ESTABLISHED' "$BATS_TEST_TMPDIR/$1.err"; }   # <name>

first_requests_wait_on() { # <mpm>
  stay_engaged  # in a dormant server Apache waits for it with a thread
  local names=(new1 new2 new3 new4 new5 new6 new7) name
  MPM=$1 start_leases 'VhostLimitSlots 8' 's: VhostLimitConcurrency 1' -t 'ServerLimit 1' -t 'ThreadLimit 16' -t 'ThreadsPerChild 16'
  for name in "${names[@]}"; do open_connection "$name" -brief; done
  for name in "${names[@]}"; do wait_until 10 is_connected "$name"; done
  hold_request one s
  for name in "${names[@]}"; do ask_for "$name" /page.html; done
  settles s waiting 7
  release_request one
  for name in "${names[@]}"; do wait_until 10 answers_are "$name" 200; done
}

@test "event: first requests that come a while after the TLS handshake wait without a thread" { first_requests_wait_on event; }

@test "worker: first requests that come a while after the TLS handshake are not refused" {
  requires worker
  first_requests_wait_on worker
}

logged_wait() { sed -n 's,^s.test GET /page.html 200 .* wait=\([0-9]*\) .*,\1,p' "$HTTPD_ROOT/logs/access.log"; }

@test "the wait of a connection before its TLS handshake is logged and counted" {
  local before
  start_leases 's: VhostLimitConcurrency 1'
  hold_request one s
  before=$(status_of s queued)
  open_connection new -brief
  settles s waiting 1
  time_passes 300
  release_request one
  wait_until 10 is_connected new
  settles s waiting 0
  ask_for new /page.html
  wait_until 10 answers_are new 200
  at_least "$(logged_wait)" 200000 "us of waiting in the log"
  is "$(status_of s queued)" $((before + 1))
}

http2_wait_is_logged_on() { # <mpm>
  local before
  requires mod_http2 curl_http2
  MPM=$1 start_leases -l http2 's: Protocols h2 http/1.1' 's: VhostLimitConcurrency 1'
  hold_request one s --http1.1
  before=$(status_of s queued)
  begin_request new s /page.html --http2
  settles s waiting 1
  time_passes 300
  release_request one
  is "$(answer_of new)" 200
  at_least "$(logged_wait)" 200000 "us of waiting in the log"
  is "$(status_of s queued)" $((before + 1))
}

@test "event: the wait of an HTTP/2 connection before its TLS handshake is logged and counted" { http2_wait_is_logged_on event; }

@test "worker: the wait of an HTTP/2 connection before its TLS handshake is logged and counted" {
  requires worker
  http2_wait_is_logged_on worker
}

@test "a connection whose client sends nothing after the TLS handshake is closed by RequestReadTimeout" {
  requires mod_reqtimeout
  start_leases -l reqtimeout 'RequestReadTimeout header=1' 'Timeout 100'
  open_connection new -brief
  wait_until 10 is_connected new
  wait_until 15 is_closed new
}

# Sixty connections need far more threads than the child has. Each waits for its first lease
# after the handshake. If these counted threads, no connection would be granted a lease until
# the timeout of the queue.
@test "HTTP/2: connections that wait after their handshake take no threads from others" {
  requires mod_http2 h2load
  local h2load_pid
  start_leases -l http2 's: Protocols h2 http/1.1' 'VhostLimitSlots auto' 'VhostLimitQueue 100 60s'
  for _ in 1 2 3; do
    h2load -n 1200 -c 60 -m 1 --connect-to="127.0.0.1:$(tls_port)" "$(url s /page.html)" >"$BATS_TEST_TMPDIR/report" 2>&1 3>&- 4>&- &
    h2load_pid=$!
    wait_until 20 gone "$h2load_pid"
    wait "$h2load_pid"
    like "$(<"$BATS_TEST_TMPDIR/report")" '1200 succeeded, 0 failed, 0 errored, 0 timeout'
  done
}

@test "HTTP/2: an upload that is longer than the flow-control window succeeds after queueing" {
  requires mod_http2 curl_http2
  start_leases -l http2 's: Protocols h2 http/1.1'
  head -c 300000 /dev/zero >"$BATS_TEST_TMPDIR/upload"
  hold_request one a
  begin_request up s /cgi/echo.sh --http2 --data-binary "@$BATS_TEST_TMPDIR/upload"
  settles s waiting 1
  release_request one
  is "$(answer_of up)" 200
}

@test "HTTP/2: a graceful restart answers streams that are held or not read yet" {
  requires mod_http2 h2load
  local h2load_pid
  start_leases -l http2 's: Protocols h2 http/1.1' 's: VhostLimitConcurrency 1' 'VhostLimitQueue 1000 60s'
  hold_request one s
  h2load -n 60 -c 6 -m 10 --connect-to="127.0.0.1:$(tls_port)" "$(url s /page.html)" >"$BATS_TEST_TMPDIR/report" 2>&1 3>&- 4>&- &
  h2load_pid=$!
  settles s waiting 6
  graceful_httpd
  release_request one
  wait "$h2load_pid"
  like "$(<"$BATS_TEST_TMPDIR/report")" 'status codes: 60 2xx'
}

# mod_http2 that learns of the stop when the long response ends never reads the held
# streams.
@test "HTTP/2: streams held behind a long response are answered at a graceful restart" {
  requires mod_http2 h2load
  local h2load_pid dir=$BATS_TEST_TMPDIR
  start_leases -l http2 's: Protocols h2 http/1.1' 's: VhostLimitConcurrency 1' 'VhostLimitQueue 1000 60s'
  mkfifo -m 666 "$HTTPD_ROOT/hold/long.fifo"
  { printf '0\t%s\n' "$(url s '/cgi/hold.sh?long')"; printf '500\t%s\n' "$(url s /page.html)"{,,}; } >"$dir/script"
  h2load --timing-script-file="$dir/script" -n 4 -c 1 -m 10 --connect-to="127.0.0.1:$(tls_port)" >"$dir/report" 2>&1 3>&- 4>&- &
  h2load_pid=$!
  settles s running 1
  settles s waiting 1
  time_passes 300
  graceful_httpd
  let_go "$HTTPD_ROOT/hold/long.fifo"
  wait "$h2load_pid"
  like "$(<"$dir/report")" 'status codes: 4 2xx'
}

@test "HTTP/2: a waiting stream is served during a long response of its connection" {
  requires mod_http2 h2load
  local h2load_pid dir=$BATS_TEST_TMPDIR
  start_leases -l http2 's: Protocols h2 http/1.1' 'VhostLimitSlots 8' 's: VhostLimitConcurrency 2'
  mkfifo -m 666 "$HTTPD_ROOT/hold/long.fifo"
  printf '0\t%s\n2000\t%s\n' "$(url s '/cgi/hold.sh?long')" "$(url s /page.html)" >"$dir/script"
  h2load --timing-script-file="$dir/script" -n 2 -c 1 -m 10 --connect-to="127.0.0.1:$(tls_port)" >"$dir/report" 2>&1 3>&- 4>&- &
  h2load_pid=$!
  settles s running 1
  hold_request other s
  settles s waiting 1
  release_request other
  wait_until 10 status_is s requests 3
  settles s running 1
  let_go "$HTTPD_ROOT/hold/long.fifo"
  wait "$h2load_pid"
  like "$(<"$dir/report")" 'status codes: 2 2xx'
}

@test "HTTP/2 in cleartext: further streams are held until the first one names the site" {
  requires mod_http2 h2load
  local h2load_pid
  start_leases -l http2 'Protocols h2c http/1.1' 'VhostLimitSlots 8' -v 'a VhostLimitConcurrency 1'
  hold_request one a
  h2load -n 20 -c 1 -m 20 --connect-to="127.0.0.1:$(httpd_port)" "$(url a /page.html)" >"$BATS_TEST_TMPDIR/report" 2>&1 3>&- 4>&- &
  h2load_pid=$!
  settles a waiting 2     # the first stream, and the connection with the others
  is "$(get b /page.html --http2-prior-knowledge -m 10)" 200
  release_request one
  wait "$h2load_pid"
  like "$(<"$BATS_TEST_TMPDIR/report")" 'status codes: 20 2xx'
  is "$(status_of a refused)" 0
}
