#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Deferred connections, beyond VhostLimitQueue: they stay unread, enter the queue when it
# has room, and are refused at the queue timeout.

load lib/live
load lib/tls

is_deferred_and_served_on() { # <mpm>
  start_httpd -m "$1" "${@:2}" 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 2 60s'
  hold_request one
  line_up a /page.html /sub/ '/page.html?3' '/page.html?4' '/page.html?5'
  is "$(status_of a waiting) $(status_of a deferred) $(status_of a refused)" '2 3 0'
  is "$(get b /)" 200
  release_request one
  is "$(answer_of pagehtml) $(answer_of sub) $(answer_of pagehtml3) $(answer_of pagehtml4) $(answer_of pagehtml5)" \
    '200 200 200 200 200'
  is "$(status_of a waiting) $(status_of a deferred) $(status_of a refused) $(status_of a queued)" '0 0 0 5'
}

@test "on each MPM connections beyond a full queue are deferred and served" {
  on_each_mpm is_deferred_and_served_on
}

@test "the oldest deferred connection enters the queue first" {
  start_httpd "${ONE_CHILD[@]}" 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 1 60s'
  hold_request one
  line_up a '/cgi/hold.sh?n1' '/cgi/hold.sh?n2' '/cgi/hold.sh?n3' '/cgi/hold.sh?n4' '/cgi/hold.sh?n5'
  is "$(status_of a waiting) $(status_of a deferred)" '1 4'
  release_request one
  is "$(answer_of cgiholdshn5)" 200
  settles a running 0
  is "$(begun n.)" 'n1 n2 n3 n4 n5'
}

@test "the limit of a queue holds over all children, which all have deferred connections in it" {
  start_httpd -t 'StartServers 4' -t 'ServerLimit 4' -t 'ThreadsPerChild 8' -t 'ThreadLimit 8' -t 'MaxRequestWorkers 32' \
    -t 'MinSpareThreads 1' -t 'MaxSpareThreads 32' 'VhostLimit On' -v 'b VhostLimitConcurrency 1' -v 'b VhostLimitQueue 5 60s'
  hold_request one b
  begin_crowd many 60 b /page.html
  wait_until 10 has_waiting b 60
  is "$(status_of b waiting) $(status_of b deferred)" '5 55'
  release_request one
  is "$(crowd_got many)" '60 200'
  is "$(status_of b deferred) $(status_of b refused)" '0 0'
}

@test "a deferred connection is refused at its timeout, with the status and Retry-After of its vhost" {
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 1 3s' -v 'a VhostLimitRetryAfter 7' \
    -v 'a VhostLimitStatusCode 429' -v 'a ErrorDocument 429 /sorry.html'
  local took
  hold_request one
  begin_request first a /page.html
  settles a waiting 1
  took=$(milliseconds get a /page.html)
  at_least "$took" 2900 milliseconds
  at_most "$took" 9000 milliseconds
  is "$(answer_head Retry-After) $(answer_head Connection) $(answer_body)" '7 close sorry from a'
  like "$(head -n 1 "$BATS_TEST_TMPDIR/head")" '^HTTP/1.1 429 Too Many Requests'
  is "$(answer_of first) $(<"$HTTPD_ROOT/hold/first.body")" '429 sorry from a' "the queued request"
  is "$(status_of a refused_queue) $(status_of a refused_timeout) $(status_of a deferred)" '1 1 0'
  at_least "$(status_of a charged_us)" 1 charged_us
  like "$(access_log a)" '(^|.)GET /page.html 429 action=refused reason=queue wait=[0-9]{7}'
  like "$(access_log a)" '(^|.)GET /page.html 429 action=refused reason=timeout wait=[0-9]{7}'
}

@test "a refused HEAD request gets no body, and a POST in parts gets the complete response" {
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 1 2s' -v 'a VhostLimitRetryAfter off'
  hold_request one
  begin_request first a /page.html
  settles a waiting 1
  packets 'HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n' >"$BATS_TEST_TMPDIR/head-answer" &
  packets 'POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 300000\r\n\r\n' @send:100000 @until:/html @send:200000 >"$BATS_TEST_TMPDIR/post-answer"
  wait $!
  like "$(<"$BATS_TEST_TMPDIR/head-answer")" $'^HTTP/1.1 503 [^\n]*\r.*\nConnection: close\r\n.*\r$'
  like "$(<"$BATS_TEST_TMPDIR/post-answer")" $'^HTTP/1.1 503 .*\n</body></html>$'
  ! grep -i retry-after "$BATS_TEST_TMPDIR"/*-answer || fail "Retry-After though it is off"
}

resets_tls_on() { # <mpm>
  requires openssl mod_ssl
  start_tls -m "$1" 'VhostLimit On' "LogFormat \"%v %a %r %>s %{SSL_PROTOCOL}x %{SSL_CIPHER}x %{VHOSTLIMIT_REASON}e\" tls" "CustomLog \"$HTTPD_ROOT/logs/tls.log\" tls \"expr=%{reqenv:VHOSTLIMIT_ACTION} == 'refused'\"" \
    't: VhostLimitConcurrency 1' 't: VhostLimitQueue 1 3s' 't: VhostLimitStatusCode 429'
  hold_request one t
  begin_request first t /page.html
  settles t waiting 1
  is "$(tls_packets "$(client_hello t.test)")" '[reset]'
  is "$(status_of t reset) $(status_of t refused_queue) $(status_of t deferred)" '1 1 0'
  is "$(answer_of first)" 429 "the queued request"
  at_least "$(status_of t charged_us)" 1 charged_us
  like "$(access_log t)" '(^|.)- 429 action=refused reason=queue wait=[0-9]{7}'
  like "$(<"$HTTPD_ROOT/logs/tls.log")" '(^|.)t.test 127.0.0.1 - 429 [^ ]+ - queue'
}

@test "on each MPM a TLS connection is reset at its timeout and logged: a refusal needs no handshake" {
  on_each_mpm resets_tls_on
}

@test "a TLS connection behind a PROXY header that is refused is logged with its client" {
  requires openssl mod_ssl mod_remoteip
  start_tls -l remoteip 'VhostLimit On' 'LogFormat "%v %a %h %>s" from' "CustomLog \"$HTTPD_ROOT/logs/from.log\" from" \
    's: VhostLimitConcurrency 1' 's: VhostLimitQueue 1 3s' 's: RemoteIPProxyProtocol On' 't: RemoteIPProxyProtocol On'
  hold_request one s --haproxy-protocol
  begin_request first s /page.html --haproxy-protocol
  settles s waiting 1
  is "$(tls_packets "PROXY TCP4 192.0.2.7 127.0.0.1 1111 443\r\n$(client_hello s.test)")" '[reset]'
  like "$(<"$HTTPD_ROOT/logs/from.log")" '(^|.)s.test 192.0.2.7 192.0.2.7 503'
}

@test "a longer queue admits deferred connections" {
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 1 60s'
  hold_request one
  line_up a /page.html /sub/ '/page.html?3'
  is "$(status_of a waiting) $(status_of a deferred)" '1 2'
  configure_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 3 60s'
  graceful_httpd
  settles a waiting 3
  is "$(status_of a deferred)" 0
  release_request one
  is "$(answer_of pagehtml) $(answer_of sub) $(answer_of pagehtml3)" '200 200 200'
}

@test "the deferred connections of a killed child are no longer counted" {
  export LOG_MAY_SAY='exit signal Killed'
  start_httpd 'VhostLimit On' -v 'b VhostLimitConcurrency 1' -v 'b VhostLimitQueue 3 60s'
  hold_request one b
  begin_crowd many 40 b /page.html
  wait_until 10 has_waiting b 40
  httpd_children | xargs kill -KILL
  settles b deferred 0
  settles b waiting 0
  settles b running 0
  is "$(get b /)" 200
}

charged_in_apache() { status_json | jq '.vhosts[] | select(.name == "b.test") | .charged_us - .backend_us'; }

@test "a site is charged for refusals by Apache" {
  start_httpd 'VhostLimit On' -v 'b VhostLimitConcurrency 1' -v 'b VhostLimitQueue 0'
  hold_request one b
  is "$(charged_in_apache)" 0
  repeat 20 get b /page.html >"$BATS_TEST_TMPDIR/codes"
  is "$(sort "$BATS_TEST_TMPDIR/codes" | uniq -c | xargs)" '20 503'
  at_least "$(charged_in_apache)" 100 "us for 20 refusals"
}

# ---- descriptors ----------------------------------------------------------------

resets_some() { (($(status_of b reset) >= $1)); }

@test "when descriptors run short the site with most connections loses its newest ones" {
  start_httpd "${ONE_CHILD[@]}" 'VhostLimit On' 'VhostLimitCgroup off' -v 'b VhostLimitConcurrency 1' -v 'b VhostLimitQueue 10 60s'
  prlimit --nofile=500:500 -p "$(httpd_pid)"
  graceful_httpd
  hold_request one b
  line_up b /sub/
  begin_crowd many 600 b /page.html
  wait_until 20 resets_some 100
  is "$(repeat 20 get a / | sort | uniq -c | xargs)" '20 200'
  at_least "$(status_of b deferred)" 100 "deferred"
  is "$(status_of b refused_queue)" "$(status_of b reset)"
  release_request one
  is "$(answer_of sub)" 200 "the first"
  like "$(crowd_got many)" '^[0-9]+ 200 [0-9]+ none$'
  is "$(status_of a refused)" 0
}

# ---- what it costs ------------------------------------------------------------

# Prints the CPU time of the server's processes so far, in us.
server_us() {
  local pid
  for pid in $(httpd_pid) $(httpd_children); do cat "/proc/$pid/task/"*/schedstat; done 2>/dev/null |
    awk '{ n += $1 } END { printf "%d\n", n / 1000 }'
}

refusal_costs() { # <vhost> <seconds>: us of CPU time, of the server, for each refusal
  local refused used
  refused=$(status_of "$1" refused) used=$(server_us)
  wrk -t1 -c200 "-d$2s" --timeout 20s -H 'Connection: close' -H "Host: $1.test" "$(tls_or_not "$1")/page.html" >&2 || :
  used=$(($(server_us) - used)) refused=$(($(status_of "$1" refused) - refused))
  at_least "$refused" 5 "refusals" || return
  echo "# $refused refusals of $1: $((used / refused)) us each" >&2
  echo $((used / refused))
}
tls_or_not() { case $1 in s) echo "https://127.0.0.1:$(tls_port)" ;; *) echo "http://127.0.0.1:$(httpd_port)" ;; esac; }

@test "what a refusal costs: with a queue, over TLS, and without a queue (shown)" {
  requires wrk openssl mod_ssl
  [[ ! ${VL_SANITIZER-} ]] || skip 'a sanitizer makes everything dearer'
  start_tls 'VhostLimit On' -v 'b VhostLimitQueue 1 100ms' -v 'b VhostLimitConcurrency 1' \
    's: VhostLimitQueue 1 100ms' 's: VhostLimitConcurrency 1' -v 'c VhostLimitQueue 0' -v 'c VhostLimitConcurrency 1'
  local seconds=1 tls
  [[ ! ${VL_LONG-} ]] || seconds=5
  hold_request one b; hold_request two s; hold_request three c
  begin_request first b /page.html
  refusal_costs b "$seconds"
  tls=$(refusal_costs s "$seconds")
  refusal_costs c "$seconds"
  local most=400 # prefork refuses fewer, and its processes' own work is divided by them
  [[ ${VL_MPM-} != prefork ]] || most=2000
  at_most "$tls" "$most" "us, over TLS"
}
