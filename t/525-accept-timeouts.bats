#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Clients that do not send their request: Apache's timeouts apply while the acceptor holds
# the connection, which uses no thread.
#
# needs: cc

load lib/live
load lib/tls

setup() { requires mod_reqtimeout; }

# Prints how the connection ended and after how many tenths of a second: "408 20", "closed
# 10". The steps send data, and then the client waits.
ends() { # <step>...
  local start=${EPOCHREALTIME/./} got
  got=$("${PACKETS:-packets}" "$@")
  local tenths=$(((${EPOCHREALTIME/./} - start) / 100000))
  case $got in
    'HTTP/1.1 408 '*) got=408 ;;
    '') got=closed ;;
    *'[reset]') got=reset ;;
    *) got=${got%%$'\r'*} ;;
  esac
  echo "$got $tenths"
}

# Checks how the connection ended, and that the time is between the bounds in tenths of a
# second.  The clients of begin wait at the same time; all_end checks them.
ended() { # <how> <least> <most> <step>...
  local how tenths
  read -r how tenths < <(ends "${@:4}")
  is "$how" "$1" && at_least "$tenths" "$2" "tenths of a second" && at_most "$tenths" $((($3 + 20) * SLOWER)) "tenths of a second"
}
begin() { ended "$@" 3>&- 4>&- & began+=("$!"); }       # <as ended>
all_end() {
  local pid failed=0
  for pid in "${began[@]}"; do wait "$pid" || failed=1; done
  began=()
  return "$failed"
}

LINE='GET /page.html HTTP/1.1\r\n'

as_configured_on() { # <mpm> [<as start_httpd>]...
  start_httpd -m "$1" -l reqtimeout "${@:2}" 'RequestReadTimeout header=1' 'AcceptFilter http none'
  begin 408 9 30 "${LINE}Host: a.te"
  begin closed 9 30 'GET /page.ht'
  begin closed 9 30 ''
  begin closed 9 30 '\r\n'
  all_end
}

holds_on() { # <mpm>
  stay_engaged  # in a dormant server Apache answers, and logs it
  as_configured_on "$1" 'VhostLimit On'
  is "$(access_log a | grep -c ' 408 ')" 1 "408s in the access log"
  is "$(status_of a waiting) $(get a /page.html)" '0 200'
}

@test "on each MPM RequestReadTimeout answers half a head with 408 and closes without a request line" {
  on_each_mpm holds_on
}

@test "plain Apache answers half a head with 408 and closes without a request line" {
  as_configured_on event -n
}

extends_with() { # <as start_httpd>...
  start_httpd "${ONE_CHILD[@]}" -l reqtimeout "$@" 'RequestReadTimeout header=1-4,MinRate=20' 'AcceptFilter http none'
  local slowly=() i
  for ((i = 0; i < 24; i++)); do slowly+=(@200 'xxxxxxxx'); done
  suspend "$(httpd_children)"                   # accepts connections that have sent already
  begin 408 22 40 "${LINE}X: $(printf 'y%.0s' {1..500})"        # a line of 25 bytes: 1.25 s more
  begin 408 39 60 "${LINE}X: " "${slowly[@]}"
  time_passes 300
  kill -CONT "$(httpd_children)"
  all_end
}

@test "MinRate extends the timeout by the received bytes, up to the maximum; bytes of an incomplete line count when more of it arrives" {
  extends_with 'VhostLimit On'
}

@test "plain Apache extends the timeout by the received bytes, up to the maximum" {
  extends_with -n
}

@test "a slow head that is complete before the timeout is served" {
  start_httpd -l reqtimeout 'VhostLimit On' 'RequestReadTimeout header=2'
  like "$(packets "${LINE}Host: a.test\r\n" @1200 'Connection: close\r\n\r\n')" 'page of a'
}

@test "Timeout alone begins again with each byte" {
  start_httpd 'VhostLimit On' -x 'Timeout 1'
  begin 408 9 25 "${LINE}Host: a.te"
  begin 408 16 35 "${LINE}Host" @700 'x'
  all_end
}

@test "each address has the RequestReadTimeout of its first vhost, also inside IfModule" {
  start_httpd -l reqtimeout 'VhostLimit On' 'RequestReadTimeout header=2' \
    -v 'a <IfModule mod_reqtimeout.c>' -v 'a RequestReadTimeout body=9 header=1' -v 'a </IfModule>' -v 'b RequestReadTimeout header=9'
  begin 408 9 25 "${LINE}Host: b.te"
  sed 's/127\.0\.0\.1/127.0.0.2/' "$TOP/t/lib/packets.pl" >"$BATS_TEST_TMPDIR/packets.pl"
  main_packets() { timeout 60 perl "$BATS_TEST_TMPDIR/packets.pl" "$(httpd_port)" "$@"; }
  PACKETS=main_packets begin 408 19 40 "${LINE}Host: b.te"
  all_end
}

need_cc() { need_program cc; }

# Lines of RequestReadTimeout that mod_reqtimeout accepts.
timeout_lines() {
  cat <<'END'
header=10
header=10-30,MinRate=500
header=0
header=20-40,minrate=1
header=20-40,MINRATE=1000000
header=20-40,MinRate=2000000
header=5,MinRate=100
header=5-6,MinRate=999999
header=1
header=007
header=+9
header=4294967299
HEADER=8
Header=8-9,mInRaTe=33
body=20
body=20,MinRate=500
body=20-30,MinRate=500
body=0
handshake=5
handshake=5-10,MinRate=700
handshake=0
handshake=5,MinRate=10
HandShake=3
header=10 body=20
header=10 body=20,MinRate=500
header=10 body=20-60,MinRate=500
body=20,MinRate=500 header=10
body=20-60,MinRate=500 header=10
handshake=5 header=10-30,MinRate=750
handshake=5 header=10,MinRate=750
handshake=5-7,MinRate=3 header=10
header=10 handshake=5-7,MinRate=3
handshake=5 header=10 body=15,MinRate=500
handshake=5-6,MinRate=1 header=10-11,MinRate=2 body=15-16,MinRate=3
handshake=0 header=0 body=0
header=10 header=12
header=10-20,MinRate=5 header=12
header=12 header=10-20,MinRate=5
"header=10" "body=20,MinRate=500"
"header=10-20,MinRate=4" 'handshake=6'
'header=11' body=3
"header= 10"
"header=10- 20,MinRate= 4"
header=10	body=20,MinRate=500
header=10    body=20,MinRate=500
"body=20"header=7
END
}

@test "RequestReadTimeout: every line is read as mod_reqtimeout reads it" {
  requires cc
  local n=0 line lines=() so=$BATS_FILE_TMPDIR/mod_headtimes.so
  # shellcheck disable=SC2046  # several flags
  cc -shared -fPIC -O2 -w -o "$so" -I"$TOP/mod_vhostlimit" -I"$(apxs_query INCLUDEDIR)" -D_GNU_SOURCE \
    $("$(apxs_query APR_CONFIG)" --includes --cppflags) "$TOP/t/lib/mod_headtimes.c"
  while IFS= read -r line; do
    ((++n))
    lines+=(-x "<VirtualHost 127.0.0.1:$(httpd_port)>" -x "ServerName line$n.test" -x "RequestReadTimeout $line" -x '</VirtualHost>')
  done < <(timeout_lines)
  start_httpd -l reqtimeout 'VhostLimit On' 'RequestReadTimeout handshake=2 header=30-50,MinRate=400' "LoadModule headtimes_module $so" "${lines[@]}"
  at_least "$n" 40 "lines"
  is "$(error_log | sed -nE 's,.* headtimes (line[0-9]+\.test) ([^/]*) / .*,\1 \2,p' | sort -u | wc -l)" "$n" "lines that mod_reqtimeout has read"
  is "$(error_log | sed -nE 's,.* headtimes ([^ ]+) ([^/]*) / (.*)$,\1 \2 \3,p' | awk '$2 " " $3 != $4 " " $5' | sort -u)" '' "differences"
}

@test "RequestReadTimeout header=0 leaves the head to Timeout" {
  start_httpd -l reqtimeout 'VhostLimit On' 'RequestReadTimeout header=0' -x 'Timeout 1'
  ended 408 9 30 "${LINE}Host: a.te"
}

@test "the next request of a keep-alive connection has a timeout of its own" {
  start_httpd -l reqtimeout 'VhostLimit On' 'RequestReadTimeout header=1' 'KeepAliveTimeout 10' -v 'b VhostLimitConcurrency 1'
  hold_request one b
  begin_request other b /page.html      # while a request is queued, connections return to the acceptor
  settles b waiting 1
  local got
  got=$(packets "${LINE}Host: a.test\r\n\r\n" '@until:page of a' @1300 "${LINE}Ho" @500 "st: a.test\r\n\r\n" '@until:page of a.*page of a' "${LINE}Ho")
  is "$(grep -c '^HTTP/1.1 200' <<<"$got") $(grep -c '^HTTP/1.1 408' <<<"$got")" '2 1'
  release_request one
  is "$(answer_of other)" 200
}

@test "TLS: handshake= or Timeout closes a connection without a complete handshake" {
  requires openssl mod_ssl
  start_tls -l reqtimeout 'VhostLimit On' 'RequestReadTimeout handshake=1 header=2' 'AcceptFilter https none' -x 'Timeout 10'
  local hello
  hello=$(client_hello s.test)
  PACKETS=tls_packets
  begin closed 9 25 "${hello:0:80}"
  begin closed 9 25 ''
  begin closed 9 25 0
  PACKETS=packets
  begin 408 19 45 "${LINE}Host: a.te"
  all_end
}

# Checks that the handshake ends after handshake=1, whether or not the rest of it trickles in.
ends_handshakes() {
  local hello
  start_tls -l reqtimeout 'VhostLimit On' 'RequestReadTimeout handshake=1 header=9' -x 'Timeout 10'
  hello=$(client_hello s.test)
  begin_handshake "${hello:0:80}" @700 "${hello:80:4}" @700 "${hello:84:4}" @700 "${hello:88:4}" @700 "${hello:92:4}"
  begin_handshake "${hello:0:80}" @700 "${hello:80}"
  begin_handshake "$hello"
  all_end
  like "$({ sleep 1.3; printf 'GET /page.html HTTP/1.0\r\nHost: s.test\r\n\r\n'; sleep 0.5; } | openssl s_client -quiet -connect "127.0.0.1:$(tls_port)" 2>&1)" ' 200 ' "a request later than the handshake's limit"
}
begin_handshake() { # <step>...
  { local start=${EPOCHREALTIME/./}
    tls_packets "$@" >/dev/null
    local tenths=$(((${EPOCHREALTIME/./} - start) / 100000))
    at_least "$tenths" 9 "tenths of a second" && at_most "$tenths" $((60 * SLOWER)) "tenths of a second"  # Timeout is 10 s
  } 3>&- 4>&- & began+=("$!")
}

@test "TLS: handshake= limits the whole handshake, in a dormant server" {
  requires openssl mod_ssl
  ends_handshakes
}

@test "TLS: handshake= limits the whole handshake, in an engaged server" {
  requires openssl mod_ssl
  stay_engaged
  ends_handshakes
}

@test "TLS: without handshake= Timeout applies" {
  requires openssl mod_ssl
  start_tls -l reqtimeout 'VhostLimit On' -x 'Timeout 1'
  PACKETS=tls_packets
  ended closed 9 30 0
}

@test "two hundred half heads use no thread" {
  start_httpd -l reqtimeout -t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadsPerChild 8' -t 'ThreadLimit 8' \
    -t 'MaxRequestWorkers 8' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 8' 'VhostLimit On' 'RequestReadTimeout header=30'
  exec_packets --idle 200 25 "${LINE}Host: a.te" >"$BATS_TEST_TMPDIR/idle" 3>&- 4>&- &
  local idle_pid=$! until=$((SECONDS + 3))
  wait_until 10 grep -q open "$BATS_TEST_TMPDIR/idle"
  while ((SECONDS < until)); do
    is "$(get b /page.html -m 3)" 200
    time_passes 500
  done
  kill "$idle_pid"
}
