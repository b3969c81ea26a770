#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# needs: pgrep
#
# TLS, HTTP/2, the PROXY protocol, WebSockets, slow clients and request bodies.

load lib/live
load lib/tls

setup() { requires openssl mod_ssl; }

# A request that holds its slot until it is released.
begin_held() { # <name> <vhost> [curl argument]...
  mkfifo -m 666 "$HTTPD_ROOT/hold/$1.fifo"
  begin_request "$1" "$2" "/cgi/hold.sh?$1" "${@:3}"
}

# The account has no request running or queued, and it is served.
is_free() { # <vhost>
  wait_until 15 status_is "$1" running 0
  wait_until 15 status_is "$1" waiting 0
  is "$(get "$1" /page.html -m 8)" 200
}

# ---- TLS -------------------------------------------------------------------------

group_is() { [[ $(status_json | jq ".vhosts[] | select(.name == \"@one\").$1") == "$2" ]]; }  # <column> <value>
either() { "${@:1:2}" || "${@:3}"; }

# During the handshake of a granted connection one later connection may be granted, not more.
waits_by_sni_on() { # <mpm>
  local one='VhostLimitGroup one' name
  start_tls -m "$1" 'VhostLimit On' 'VhostLimitQueue 100 60s' "s: $one" 's: VhostLimitConcurrency 1' -v "a $one" -v 'a VhostLimitConcurrency 1'
  hold_request one a
  begin_held two s; wait_until 10 group_is waiting 1
  begin_held next a; wait_until 10 group_is waiting 2
  begin_held last a; wait_until 10 group_is waiting 3
  is "$(get t / -m 8) $(get b / -m 8)" '200 200'
  release_request one
  wait_until 10 either held two held next
  if held next; then release_request next; fi
  wait_until 10 held two
  held last && fail "a later connection was served first"
  for name in two next last; do release_request $name; done
  is "$(answer_of two) $(answer_of next) $(answer_of last)" '200 200 200'
  wait_until 20 group_is queued 3
}

@test "event and worker: a TLS connection is queued before its handshake, by SNI, and served in order of arrival" {
  MPMS='event worker' on_each_mpm waits_by_sni_on
}

# Prints 1 if the server answers a ClientHello for s.test within a second. Without mod_md it
# chooses no protocol of ACME, which the client refuses.
answers_hello() { # <option of openssl s_client>...
  timeout "$SLOWER" openssl s_client -brief -connect "127.0.0.1:$(tls_port)" -servername s.test "$@" </dev/null 2>&1 | grep -cE 'CONNECTION ESTABLISHED|tls_parse_stoc_alpn' || true
}

@test "a validation of ACME over TLS (tls-alpn-01) does not wait while its site is flooded" {
  requires mod_ssl openssl
  start_tls 'VhostLimit On' 's: VhostLimitConcurrency 1' 's: VhostLimitQueue 1 60s'
  hold_request one s
  begin_request two s /page.html
  settles s waiting 1
  is "$(answers_hello -alpn http/1.1)" 0
  is "$(answers_hello -alpn acme-tls/1)" 1
  is "$(status_of s waiting)" 1
  release_request one
  is "$(answer_of two)" 200
}

@test "a validation of ACME over HTTP (http-01) does not wait while its site is flooded, and a flood of them does" {
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 100 60s'
  mkdir -p "$HTTPD_ROOT/htdocs/a/.well-known/acme-challenge"
  echo token >"$HTTPD_ROOT/htdocs/a/.well-known/acme-challenge/name"
  hold_request one
  line_up a /page.html
  is "$(get a /.well-known/acme-challenge/name -m 10) $(answer_body)" '200 token'
  begin_crowd many 60 a /.well-known/acme-challenge/name
  wait_until 10 status_at_least a waiting 20
  release_request one
  is "$(answer_of pagehtml) $(crowd_got many)" '200 60 200'
  settles a running 0
}

@test "the next request of a keep-alive TLS connection is queued" {
  local one='VhostLimitGroup one'
  start_tls 'VhostLimit On' "s: $one" 's: VhostLimitConcurrency 1' -v "a $one" -v 'a VhostLimitConcurrency 1'
  mkfifo -m 666 "$HTTPD_ROOT/hold/kept.fifo"
  begin_request kept s /page.html -w '%{http_code} %{num_connects}\n' "$(url s '/cgi/hold.sh?kept')" -o /dev/null
  wait_until 10 held kept
  begin_held other a
  wait_until 20 group_is waiting 1
  let_go "$HTTPD_ROOT/hold/kept.fifo"
  wait_until 10 held other
  wait_until 20 group_is waiting 1
  answered kept && fail "it was not queued"
  release_request other
  is "$(answer_of kept | xargs)" '200 1 200 0'
  wait_until 20 group_is queued 2
}

# The second request on a keep-alive connection waits with its thread for its site's only
# slot.
waits_through_graceful_on() { # <mpm>
  local kept_pid page='GET /page.html HTTP/1.1\r\nHost: a.test\r\n' go=$BATS_TEST_TMPDIR/go
  start_httpd -m "$1" 'VhostLimit On' -v 'a VhostLimitConcurrency 1' 'VhostLimitQueue 1000 40s' 'KeepAliveTimeout 60'
  packets "$page\r\n" '@until:page of a' "@when:$go" "${page}Connection: close\r\n\r\n" >"$BATS_TEST_TMPDIR/kept" 3>&- 4>&- &
  kept_pid=$!
  settles a requests 1
  settles a running 0
  hold_request other a
  : >"$go"
  settles a waiting 1
  graceful_httpd
  settles a waiting 1
  release_request other
  wait "$kept_pid"
  is "$(grep -ac 'page of a' "$BATS_TEST_TMPDIR/kept")" 2 answers
  wait_until 20 status_is a waiting 0
  is "$(status_of a refused)" 0
}

@test "worker: a thread waiter is served by a quiescing child" {
  requires worker
  waits_through_graceful_on worker
}

with_sni() { # <sni> <Host>   status and whose page it is
  local text
  text=$({ printf 'GET /page.html HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$2"; } |
    timeout 15 openssl s_client -quiet -connect "127.0.0.1:$(tls_port)" \
      "${3:--servername}" ${1:+"$1"} 2>/dev/null | tr -d '\r\0')
  echo "$(sed -n '1s/^HTTP[^ ]* \([0-9]*\).*/\1/p' <<<"$text") $(grep -oE 'page of [a-z]' <<<"$text")"
}

all_sni() {
  with_sni s.test s.test
  with_sni t.test t.test
  with_sni s.test t.test
  with_sni t.test s.test
  with_sni unknown.test unknown.test
  with_sni unknown.test t.test
  with_sni '' s.test -noservername
  with_sni '' t.test -noservername
}

@test "no SNI, an unknown SNI, and a Host other than the SNI: same response as plain Apache" {
  local plain
  start_tls -n
  plain=$(all_sni)
  stop_httpd
  start_tls 'VhostLimit On' 's: VhostLimitConcurrency 2' 't: VhostLimitConcurrency 2'
  like "$plain" '^200 page of s.200 page of t'
  is "$(all_sni)" "$plain"
  is_free s; is_free t
}

@test "a request whose Host is not its SNI is counted in the vhost that answers it" {
  local other_pid
  stay_engaged  # a dormant server does not look at the SNI
  start_tls 'VhostLimit On' 's: VhostLimitConcurrency 1'
  hold_request one s
  in_background other with_sni s.test t.test
  settles s waiting 1
  release_request one
  wait "$other_pid"
  like "$(<"$BATS_TEST_TMPDIR/other")" '^(200 page of t|421)'
  is_free s; is_free t
}

@test "the SNI of a limited vhost with the Host of an Off vhost: a kept-alive connection holds no slot" {
  local kept_pid
  start_tls 'VhostLimit On' 's: VhostLimitConcurrency 1' 't: VhostLimit Off' 't: KeepAliveTimeout 15'
  in_background kept kept_alive_by_other_host
  wait_until 20 has_got kept 'page of t'
  settles s running 0
  is "$(get s /page.html -m 5)" 200
  kill -0 "$kept_pid"
  [[ -n $(ss -Htn state established "sport = :$(tls_port)") ]] || fail "the connection was not kept alive"
  : >"$BATS_TEST_TMPDIR/kept.end"
  wait "$kept_pid"
}
kept_alive_by_other_host() {
  { printf 'GET /page.html HTTP/1.1\r\nHost: t.test\r\n\r\n'; wait_until 15 [ -e "$BATS_TEST_TMPDIR/kept.end" ]; } |
    timeout 20 openssl s_client -quiet -no_ign_eof -connect "127.0.0.1:$(tls_port)" -servername s.test 2>/dev/null || :
}

@test "200 connections with only a ClientHello do not delay another vhost" {
  local idle_pid
  local i
  stay_engaged  # in a dormant server some of them have threads, until RequestReadTimeout
  start_tls 'VhostLimit On'
  in_background idle tls_packets --idle 200 30 "$(client_hello s.test)"
  wait_until 20 has_got idle open
  for i in 1 2 3; do is "$(get t /page.html -m 8) $(get a /page.html -m 8)" '200 200' "round $i"; done
  kill "$(pgrep -P "$idle_pid" -x perl || pgrep -P "$(pgrep -P "$idle_pid")")"
  is_free s
  repeat 3 is_free t
}

certifies_by() { # <curl's options of TLS>...
  local ask=(--cert "$TLS_DIR/cert.pem" --key "$TLS_DIR/key.pem" --http1.1 "$@")
  is "$(get s /page.html "${@}" --http1.1)" 403
  is "$(get s /page.html "${ask[@]}")" 200
  hold_request one s
  begin_request two s /page.html "${ask[@]}"; settles s waiting 1
  begin_request three s /sub/ "${ask[@]}"; settles s waiting 2
  is "$(get t /page.html -m 8)" 200
  release_request one
  is "$(answer_of two) $(answer_of three)" '200 200'
  rm -f "$HTTPD_ROOT/hold"/*
  is_free t
}

@test "client certificates per directory work while other requests are queued" {
  make_certificate
  start_tls 'VhostLimit On' 's: VhostLimitConcurrency 1' "s: SSLCACertificateFile \"$TLS_DIR/cert.pem\"" \
    's: <Location /page.html>' 's: SSLVerifyClient optional' \
    's: Require expr "%{SSL_CLIENT_VERIFY} == '"'SUCCESS'"'"' 's: </Location>'
  certifies_by --tls-max 1.2
  certifies_by --tlsv1.3
  settles s running 0
  settles s waiting 0
}

# ---- HTTP/2 ----------------------------------------------------------------------

h2load_to() { # <vhost> <path> <h2load argument>...
  h2load --connect-to="127.0.0.1:$(httpd_port)" "${@:3}" "$(url "$1" "$2")"
}
of_status() { sed -n "s/^status codes:.* \([0-9]*\) $1.*/\1/p" <<<"$2"; }  # <2xx> <report>

@test "HTTP/2: streams beyond the concurrency limit wait and are served, by upgrade, prior knowledge and ALPN" {
  requires mod_http2 curl_http2
  start_tls -l http2 'Protocols h2 h2c http/1.1' 'VhostLimit On' 'VhostLimitConcurrency 1' \
    's: Protocols h2 http/1.1' -t 'ThreadsPerChild 16' -t 'ThreadLimit 16' -t 'StartServers 1' \
    -t 'ServerLimit 2' -t 'MaxRequestWorkers 32' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 32'
  local vhost how=() 
  for vhost in a b s; do
    case $vhost in a) how=(--http2) ;; b) how=(--http2-prior-knowledge) ;; s) how=(--http2) ;; esac
    hold_request "one$vhost" "$vhost" "${how[@]}"
    begin_request "two$vhost" "$vhost" /page.html "${how[@]}" -w '%{http_code} %{http_version}\n'
    settles "$vhost" waiting 1
    is "$(get c /page.html -m 8)" 200
    release_request "one$vhost"
    is "$(answer_of "two$vhost")" '200 2' "$vhost"
    is_free "$vhost"
  done
}

@test "HTTP/2: more waiting streams than H2MaxWorkers use no thread, and none is refused" {
  local many_pid report
  requires event mod_http2 h2load
  start_tls -l http2 'Protocols h2c http/1.1' 'H2MinWorkers 4' 'H2MaxWorkers 4' 'VhostLimit On' 'VhostLimitQueue 1000 60s' -v 'a VhostLimitConcurrency 1'
  hold_request one a
  in_background many h2load_to a /page.html -n 60 -c 2 -m 30
  wait_until 10 status_at_least a waiting 2
  is "$(get b /page.html --http2-prior-knowledge -m 10)" 200
  release_request one
  wait "$many_pid"
  report=$(<"$BATS_TEST_TMPDIR/many")
  is "$(of_status 2xx "$report")" 60
  is "$(status_of a refused)" 0
  is_free a
}

@test "HTTP/2: few threads of mod_http2 are reported at the start" {
  requires mod_http2
  start_tls -l http2 'Protocols h2c http/1.1' 'H2MinWorkers 1' 'H2MaxWorkers 7' 'VhostLimit On'
  is "$(error_log | grep -c 'VL0039: mod_http2 has 7 threads in a child process. With fewer than 8')" 1
  end_server
  start_tls -l http2 'Protocols h2c http/1.1' 'H2MinWorkers 1' 'H2MaxWorkers 8' 'VhostLimit On'
  is "$(error_log | grep -c VL0039)" 0
  end_server
  start_tls -l http2 'Protocols http/1.1' 'H2MinWorkers 1' 'H2MaxWorkers 7' 'VhostLimit On'
  is "$(error_log | grep -c VL0039)" 0 'without HTTP/2'
}

# ---- PROXY protocol ----------------------------------------------------------------

FROM='PROXY TCP4 192.0.2.7 127.0.0.1 1111 80\r\n'

@test "PROXY protocol: connections are classified by the Host behind the header" {
  requires mod_remoteip
  local log="$HTTPD_ROOT/logs/from.log"
  local text
  start_tls -l remoteip 'LogFormat "%v %a" from' "CustomLog \"$log\" from" 'VhostLimit On' 's: VhostLimitConcurrency 1' 's: SSLEngine off' 't: SSLEngine off' \
    's: RemoteIPProxyProtocol On' 't: RemoteIPProxyProtocol On'
  # shellcheck disable=SC2034  # http.bash reads url
  set_url() { local port; port_of "$([[ $1 != [st] ]] || echo tls)" && url=http://$1.test:$port$2; }
  hold_request one s --haproxy-protocol
  begin_request two s /page.html --haproxy-protocol; settles s waiting 1
  is "$(get t /page.html --haproxy-protocol -m 8) $(status_of s waiting)" '200 1'
  text=$(tls_packets "${FROM}GET /page.html HTTP/1.1\r\nHost: t.test\r\n\r\n" '@until:page of t' \
    'GET /page.html HTTP/1.1\r\nHost: t.test\r\nConnection: close\r\n\r\n')
  is "$(grep -ac 'page of t' <<<"$text")" 2 "$text"
  release_request one
  is "$(answer_of two)" 200
  settles s waiting 0
  wait_until 20 grep -q '^t.test 192.0.2.7' "$log"
}

reads_headers_on() { # <mpm>
  start_tls -m "$1" -l remoteip 'VhostLimit On' 's: SSLEngine off' 't: SSLEngine off' 's: RemoteIPProxyProtocol On' -x "Listen 127.0.0.1:$(free_port other)"
  is "$(tls_packets "${FROM}GET /page.html HTTP/1.1\r\nHost: s.test\r\nConnection: close\r\n\r\n" | sed -n 's/\r$//; 1p')" 'HTTP/1.1 200 OK'
}

@test "PROXY protocol: the header is read on a port that is not the only one, on each MPM" {
  requires mod_remoteip
  on_each_mpm reads_headers_on
}

# ---- long-lived ------------------------------------------------------------------------

UPGRADE='GET /ws HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'

@test "a WebSocket is served and holds no slot while it is open" {
  local socket_pid echo_pid
  requires mod_proxy_wstunnel
  local echo_port
  echo_port=$(free_port echo)
  in_background echo perl "$TOP/t/lib/websocket_echo.pl" "$echo_port" 60
  start_tls -l proxy -l proxy_wstunnel 'VhostLimit On' -v 'a VhostLimitConcurrency 1' \
    -v "a ProxyPass /ws ws://127.0.0.1:$echo_port/"
  in_background socket packets "$UPGRADE" '@until:101 .*\r\n\r\n' 'once' '@until:once' \
    "@when:$BATS_TEST_TMPDIR/go" 'again' '@until:again' @half
  settles a requests 1
  wait_until 10 status_is a running 0
  is "$(get a /page.html -m 8)" 200
  is "$(get b /page.html -m 8)" 200
  touch "$BATS_TEST_TMPDIR/go"
  wait "$socket_pid"
  kill "$echo_pid"
  like "$(<"$BATS_TEST_TMPDIR/socket")" '101 .*onceagain'
}

@test "a slow client over HTTP holds no slot while it receives a large file" {
  local slow_pid
  start_tls 'VhostLimit On' -v 'a VhostLimitConcurrency 1'
  in_background slow packets 'GET /big.bin HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n' '@take:1000' "@when:$BATS_TEST_TMPDIR/go" '@take:64000000'
  wait_until 20 status_is a requests 1
  is "$(get a /page.html -m 10)" 200
  kill -0 "$slow_pid" || fail "the response had ended"
  touch "$BATS_TEST_TMPDIR/go"
  wait "$slow_pid"
  at_least "$(wc -c <"$BATS_TEST_TMPDIR/slow")" 64000000 "bytes"
}

# The response is larger than the sockets' buffers.
reads_slowly() { # <name> <vhost> <path>
  begin_request "$1" "$2" "$3" --limit-rate 4M
  wait_until 10 status_is "$2" requests 1
  is "$(get "$2" /page.html -m 15)" 200 "$2$3"
  answered "$1" && fail "the response had ended"
  settles "$2" running 0
}

@test "event, worker: a slow client over TLS or of a program holds no slot while it receives the response" {
  requires worker
  local mpm
  for mpm in event worker; do
    start_tls -m "$mpm" 'VhostLimit On' -v 'a VhostLimitConcurrency 1' 's: VhostLimitConcurrency 1'
    truncate -s 200000000 "$TLS_DIR/s/large.bin"
    reads_slowly "tls$mpm" s /large.bin
    reads_slowly "cgi$mpm" a /cgi/large.sh
    stop_httpd
  done
}

@test "a slow client over HTTP/2 holds no slot while its stream waits for it" {
  local slow_pid
  requires event mod_http2 curl_http2
  start_tls -l http2 's: Protocols h2 http/1.1' 'VhostLimit On' 's: VhostLimitConcurrency 1'
  truncate -s 300000000 "$TLS_DIR/s/large.bin"
  in_background slow web --http2 --limit-rate 2M -o /dev/null -D "$BATS_TEST_TMPDIR/slow.head" "$(url s /large.bin)"
  wait_until 10 status_is s requests 1
  settles s running 0
  is "$(get s /page.html -m 10)" 200
  like "$(<"$BATS_TEST_TMPDIR/slow.head")" '^HTTP/2 200'
  kill "$(pgrep -P "$slow_pid")" || fail "the response had ended"
  settles s running 0
}

# An upload whose client sends one half first, and the other half after the checks.
uploads_slowly() { # <name> <vhost> [curl argument]...
  local up
  mkfifo "$BATS_TEST_TMPDIR/$1"
  begin_request "$1" "$2" /cgi/echo.sh -X POST -T "$BATS_TEST_TMPDIR/$1" "${@:3}"
  exec {up}>"$BATS_TEST_TMPDIR/$1"
  printf 'half' >&"$up"
  wait_until 10 status_is "$2" requests 1
  settles "$2" running 0
  is "$(get "$2" /page.html -m 10)" 200 "beside the upload"
  answered "$1" && fail "the response had ended"
  printf ' and half' >&"$up"
  exec {up}>&-
  is "$(answer_of "$1") $(<"$HTTPD_ROOT/hold/$1.body")" '200 13 bytes' "$1"
  settles "$2" running 0
}

@test "a slow upload holds no slot while its client sends nothing" {
  stay_engaged  # in a dormant server no request holds a slot
  start_tls 'VhostLimit On' -v 'a VhostLimitConcurrency 1' 's: VhostLimitConcurrency 1'
  uploads_slowly http a
  uploads_slowly tls s
}

@test "a slow upload over HTTP/2 holds no slot while its client sends nothing" {
  stay_engaged  # in a dormant server no request holds a slot
  requires mod_http2 curl_http2
  start_tls -l http2 's: Protocols h2 http/1.1' 'VhostLimit On' 's: VhostLimitConcurrency 1'
  uploads_slowly http2 s --http2
}

# A program waits for its input and then works. Its work is charged, and the waiting is not.
@test "a request is charged while it works, not while it waits for its client" {
  stay_engaged  # in a dormant server no request holds a slot
  local up charged
  start_tls 'VhostLimit On' 'VhostLimitCgroup off'
  mkfifo "$BATS_TEST_TMPDIR/up"
  begin_request up a /cgi/echo.sh -X POST -T "$BATS_TEST_TMPDIR/up"
  exec {up}>"$BATS_TEST_TMPDIR/up"
  printf 'half' >&"$up"
  settles a requests 1
  settles a running 0
  charged=$(status_of a charged_us)
  time_passes 1000
  is "$(status_of a charged_us)" "$charged" "while it waits"
  exec {up}>&-
  is "$(answer_of up)" 200
  settles a running 0
  (($(status_of a charged_us) < charged + 500000)) || fail "charged $(status_of a charged_us) us"
  (($(status_of a charged_us) > charged)) || fail "what it did afterwards is not charged"
}

# Sites share by what they are charged: all that their connections cost, also in the threads that accept.
@test "the CPU time of connections is charged to their site, also over TLS" {
  requires ab
  stay_engaged
  start_tls 'VhostLimit On'
  is_charged a -n 10000 "http://127.0.0.1:$(httpd_port)/page.html"
  is_charged s -n 2000 "https://127.0.0.1:$(tls_port)/page.html"
}

is_charged() { # <vhost> <argument of ab>...
  local children used charged
  for _ in 1 2 3; do
    children=$(httpd_children)
    # shellcheck disable=SC2086  # pids
    used=$(cpu_of $children) charged=$(status_of "$1" charged_us)
    ab -q -c 20 -H "Host: $1.test" "${@:2}" >/dev/null
    settles "$1" running 0
    [[ $(httpd_children) != "$children" ]] || break         # what one that has ended used is not known
  done
  # shellcheck disable=SC2086  # pids
  used=$(($(cpu_of $children) - used)) charged=$(($(status_of "$1" charged_us) - charged))
  ((charged > used * 17 / 20 && charged < used * 23 / 20)) || fail "$*: used $used us, charged $charged us"
}

# ---- bodies --------------------------------------------------------------------------

@test "Expect: 100-continue and a chunked body work on connections that were queued" {
  start_tls 'VhostLimit On' 's: VhostLimitConcurrency 1' -v 'a VhostLimitConcurrency 1'
  local vhost
  for vhost in a s; do
    hold_request "one$vhost" "$vhost"
    begin_request "expect$vhost" "$vhost" /cgi/echo.sh -H 'Expect: 100-continue' -d 12345 -D "$HTTPD_ROOT/hold/head$vhost"
    settles "$vhost" waiting 1
    begin_request "chunks$vhost" "$vhost" /cgi/echo.sh -H 'Transfer-Encoding: chunked' -d 1234567
    settles "$vhost" waiting 2
    release_request "one$vhost"
    is "$(answer_of "expect$vhost") $(answer_of "chunks$vhost")" '200 200'
    is "$(<"$HTTPD_ROOT/hold/expect$vhost.body") $(<"$HTTPD_ROOT/hold/chunks$vhost.body")" '5 bytes 7 bytes'
    like "$(<"$HTTPD_ROOT/hold/head$vhost")" '^HTTP/1.1 100 '
  done
}
