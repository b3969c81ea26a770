#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Programs of a that do not end: b is served, whatever kind of connection a uses.

load lib/live
load lib/tls

SIXTEEN_PROCESSES=(-t 'StartServers 16' -t 'MinSpareServers 16' -t 'MaxSpareServers 16' -t 'MaxRequestWorkers 16')
HANG='GET /cgi/hold.sh?hang HTTP/1.1\r\nHost: a.test\r\n\r\n'
KEPT='GET /page.html HTTP/1.1\r\nHost: a.test\r\n\r\n'

setup() {
  requires event
  hangs=()
}

can_hang() { mkfifo -m 666 "$HTTPD_ROOT/hold/hang.fifo"; }
has_begun() { [[ -e $HTTPD_ROOT/hold/hang.in ]]; }

# b is served while no program of a has ended. The status page would itself be a request
# that waits.
b_is_served() {
  local i
  wait_until 20 has_begun
  for i in 1 2 3; do is "$(get b /page.html -m $((15 * SLOWER)))" 200; done
  none_has_ended
}

begin_hanging() { # <number> <vhost> [curl argument]...
  local i
  can_hang
  for ((i = 1; i <= $1; i++)); do
    begin_request "hang$i" "$2" '/cgi/hold.sh?hang' "${@:3}"
    hangs+=("hang$i")
  done
}

end_all() { # <vhost>
  local fifo
  fifo=$HTTPD_ROOT/hold/hang.fifo
  ln "$fifo" "$fifo.last" && rm "$fifo"
  wait_until 20 no_request_hangs "$1"
}
no_request_hangs() { write_to "$HTTPD_ROOT/hold/hang.fifo.last"; status_is "$1" running 0 && status_is "$1" waiting 0; }  # <vhost>
write_to()         { timeout 1 tee "$1" <<<go >/dev/null || :; }  # <fifo>

# A hanging request is answered only when a program has ended.
none_has_ended() {
  local name
  for name in "${hangs[@]}"; do
    ! answered "$name" || is "$(answer_of "$name")" 503 "a program of a that hangs"
  done
}

# Prints how many of them were answered with the status.
hangs_with() { # <status>
  local name n=0
  for name in "${hangs[@]}"; do
    [[ $(answer_of "$name") != "$1" ]] || n=$((n + 1))
  done
  echo "$n"
}

status_below() { (($(status_of "$1" "$2") < $3)); }  # <vhost> <key> <number>
all_have_arrived() { (($(status_of "$1" running) + $(status_of "$1" waiting) == $2)); }  # <vhost> <number>

# ---- connections of their own ----------------------------------------------------

# Sixteen threads, or processes.
start_sixteen() { # <mpm> <start_httpd argument>...
  local size=("${ONE_CHILD[@]}")
  [[ $1 != prefork ]] || size=("${SIXTEEN_PROCESSES[@]}")
  start_httpd -m "$1" "${size[@]}" "${@:2}"
}

hangs_beside_b_on() { # <mpm>
  start_sixteen "$1" 'VhostLimit On' 'VhostLimitQueue 100 60s'
  begin_hanging 40 a
  wait_until 20 all_have_arrived a 40
  b_is_served
  is "$(status_of a refused) $(status_of b refused)" '0 0'
  at_least "$(status_of a running)" 4 "programs of a at once"
  wait_until 20 status_below a duty_permille 300      # they sleep
  end_all a
  is "$(hangs_with 200)" 40
}

@test "on each MPM hanging programs of one vhost leave slots, threads and processes to another" {
  on_each_mpm hangs_beside_b_on
}

# ---- keep-alive connections, which have their threads at once --------------------

kept_hang_beside_b_on() { # <mpm>
  local kept_pid go=$BATS_TEST_TMPDIR/go kept=$BATS_TEST_TMPDIR/kept
  start_sixteen "$1" 'KeepAliveTimeout 30' 'VhostLimit On' 'VhostLimitQueue 100 60s'
  can_hang
  packets --kept 16 "$go" "$KEPT" "$HANG" >"$kept" 2>&1 3>&- 4>&- &
  kept_pid=$!
  wait_until 20 grep -q ' ' "$kept"
  : >"$go"
  b_is_served
  end_all a
  wait "$kept_pid"
  is "$(sed -n 1p "$kept")" '16 200'
  # Under worker and prefork idle connections keep their threads and are closed when b
  # needs one.
  is "$(sed 1d "$kept" | grep -vc ' \(200\|none\)$')" 0 "other answers of a"
  [[ $1 != event ]] || is "$(sed -n 2p "$kept")" '16 200' "of a"
}

@test "on each MPM hanging requests on keep-alive connections leave threads and processes to another vhost" {
  on_each_mpm kept_hang_beside_b_on
}

# ---- HTTP/2, whose connections have a thread besides their streams' --------------

start_h2() {
  requires mod_http2 curl_http2
  start_tls -l http2 'Protocols h2 h2c http/1.1' 's: Protocols h2 http/1.1' "${ONE_CHILD[@]}" \
    'VhostLimit On' 'VhostLimitQueue 100 60s'
}

# The connections are classified as a's only when their first streams have been read.
@test "HTTP/2 in cleartext: hanging streams leave threads to another vhost" {
  start_h2
  begin_hanging 40 a --http2-prior-knowledge
  b_is_served
  at_least "$(status_of a running)" 6 "programs of a at once"
  end_all a
  is "$(hangs_with 200)" 40
}

@test "HTTP/2 over TLS: connections beyond the threads are queued and served" {
  start_h2
  begin_hanging 40 s --http2
  b_is_served
  end_all s
  is "$(hangs_with 200)" 40
}

@test "HTTP/2: all streams of one vhost alone are served" {
  requires h2load
  local report
  start_h2
  report=$(timeout $((30 * SLOWER)) h2load -n 240 -c 12 -m 5 --connect-to="127.0.0.1:$(httpd_port)" "$(url a /cgi/nap.sh)")
  like "$report" 'status codes: 240 2xx'
}

@test "requests of one site that hang get further child processes, and others keep threads" {
  start_httpd 'VhostLimit On' 'VhostLimitSlots 100' 'VhostLimitQueue 100 60s' -t 'StartServers 1' -t 'ServerLimit 8' -t 'ThreadLimit 10' \
    -t 'ThreadsPerChild 10' -t 'MinSpareThreads 8' -t 'MaxSpareThreads 80' -t 'MaxRequestWorkers 80'
  begin_hanging 40 a
  wait_until 30 status_is a running 40
  b_is_served
  end_all a
}
