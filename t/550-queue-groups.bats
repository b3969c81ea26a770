#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# VhostLimitGroup and VhostLimitExempt, and thread waiters.

load lib/live

log_line() { wait_until 20 access_log_has "$1" "$2"; }                   # <vhost> <regular expression>
access_log_has() { grep -Eq -- "$2" <<<"$(access_log "$1")"; }
group_is() { [[ $(status_json | jq ".vhosts[] | select(.name == \"$1\").$2") == "$3" ]]; }  # <group> <column> <value>

@test "the vhosts of a group share one account" {
  start_httpd 'VhostLimit On' -v 'a VhostLimitGroup one' -v 'b VhostLimitGroup one' \
    -v 'a VhostLimitConcurrency 1'
  is "$(status_json | jq '[.vhosts[] | select(.name == "@one")] | length')" 1
  hold_request one
  begin_request two b /page.html
  wait_until 20 group_is @one waiting 1
  is "$(get c /)" 200
  release_request one
  is "$(answer_of two)" 200
  wait_until 20 group_is @one requests 2
}

@test "VhostLimitGroup rejects an invalid name" {
  check_config 'VhostLimit On' -v 'a VhostLimitGroup "cust omer"'
  is "$status" 1
  like "$output" "VhostLimitGroup: 'cust omer' is not a name of up to 64 letters, digits and . _ -"
}

@test "exempt requests are neither queued nor refused" {
  start_httpd -l remoteip 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 1 60s' \
    -v "a VhostLimitExempt \"%{REQUEST_URI} == '/page.html' || %{HTTP:X-Probe} == 'yes'\""
  hold_request one
  begin_request two a /sub/
  settles a waiting 1
  begin_request three a /
  settles a deferred 1
  is "$(get a /page.html) $(get a / -H 'X-Probe: yes') $(get a '/page.html?x=1')" '200 200 200'
  log_line a '^GET /page\.html 200 action=exempt reason=- wait=0 '
  is "$(status_of a running) $(status_of a waiting)" '1 1'
  release_request one
  is "$(answer_of two) $(answer_of three)" '200 200'
}

# There is no request yet when the expression is evaluated, so its variables are empty.
@test "an expression of VhostLimitExempt may use any variable" {
  local name any=()
  for name in HTTP_ACCEPT HTTP_COOKIE HTTP_FORWARDED HTTP_HOST HTTP_PROXY_CONNECTION HTTP_REFERER HTTP_USER_AGENT \
    REQUEST_METHOD REQUEST_SCHEME REQUEST_URI DOCUMENT_URI REQUEST_FILENAME SCRIPT_FILENAME LAST_MODIFIED SCRIPT_USER \
    SCRIPT_GROUP PATH_INFO QUERY_STRING IS_SUBREQ THE_REQUEST REMOTE_ADDR REMOTE_PORT REMOTE_USER \
    SERVER_NAME SERVER_PORT SERVER_ADMIN SERVER_PROTOCOL DOCUMENT_ROOT AUTH_TYPE CONTENT_TYPE HANDLER HTTP2 HTTPS IPV6 REQUEST_STATUS \
    REQUEST_LOG_ID CONN_LOG_ID CONN_REMOTE_ADDR CONTEXT_PREFIX CONTEXT_DOCUMENT_ROOT TIME API_VERSION SERVER_SOFTWARE \
    ENV:PATH HTTP:Host SSL:SSL_PROTOCOL SSL:SSL_CLIENT_S_DN; do
    any+=("%{$name} == '/x'")
  done
  any+=("req('Host') == 'x'" "req_novary('Host') == 'x'" "resp('Host') == 'x'" "reqenv('X') == 'x'" "note('X') == 'x'"
    "env('X') == 'x'" "osenv('X') == 'x'" "tolower('X') == 'y'" "md5('X') == 'x'" "-T req('X')" "-R '10.0.0.0/8'" "-n ''")
  start_httpd -l ssl -l socache_shmcb -l http2 'VhostLimit On' \
    -v "a VhostLimitExempt \"$(printf '%s || ' "${any[@]}")%{REQUEST_URI} == '/sub/'\""
  is "$(get a /page.html) $(get a /sub/) $(get a / -X POST)" '200 200 200'
  settles a requests 2
}

@test "an expression sees the address of the connection, or the one in an expected PROXY header" {
  requires mod_remoteip
  start_httpd -l remoteip 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 5 60s' \
    -v "a VhostLimitExempt \"%{REMOTE_ADDR} =~ /^(127.0.0.9|192.0.2.9)\$/\"" \
    -v 'a RemoteIPProxyProtocol On' -v 'a RemoteIPProxyProtocolExceptions 127.0.0.1 127.0.0.9'
  hold_request one a --interface 127.0.0.5 --haproxy-protocol
  begin_request two a /page.html --interface 127.0.0.5 --haproxy-protocol
  settles a waiting 1
  is "$(get a /page.html --interface 127.0.0.9 -m 8)" 200
  like "$(LOCAL_ADDRESS=127.0.0.5 packets 'PROXY TCP4 192.0.2.9 127.0.0.1 1111 80\r\nGET /page.html HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n' @until:'page of a')" \
    '^HTTP/1.1 200 OK'
  is "$(status_of a waiting)" 1
  release_request one
  is "$(answer_of two)" 200
}

# Prints the statuses of requests that are sent while all requests of a.test wait.
exempt_statuses() { # <request line>...
  local line
  for line; do
    packets "$line\r\nConnection: close\r\n$([[ $line != *1.1* ]] || printf '%s' 'Host: a.test\r\n')\r\n" | sed -n '1s/^HTTP[^ ]* \([0-9]*\).*/\1/p'
  done
}

@test "VhostLimitExempt applies to OPTIONS *, to absolute targets, without a Host line, and to each spelling of a path" {
  local port
  port=$(httpd_port)
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 5 60s' \
    -v "a VhostLimitExempt \"%{REQUEST_METHOD} == 'OPTIONS' || %{REQUEST_URI} == '/page.html'\""
  hold_request one
  begin_request two a /
  settles a waiting 1
  is "$(exempt_statuses 'OPTIONS * HTTP/1.1' 'OPTIONS * HTTP/1.0' "GET http://a.test:$port/page.html HTTP/1.1" 'GET http://a.test/page.html HTTP/1.0' \
    'GET /page.html HTTP/1.0' 'GET /%70age.html HTTP/1.1' 'GET //x/../page.html HTTP/1.1' | xargs)" '200 200 200 200 200 200 200'
  is "$(status_of a waiting)" 1
  release_request one
  is "$(answer_of two)" 200
}

@test "VhostLimitExempt does not apply if its expression fails" {
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 0' \
    -v "a VhostLimitExempt \"%{HTTP:X-Number} -gt 5\""
  hold_request one
  is "$(get a / -H 'X-Number: 7') $(get a / -H 'X-Number: 3') $(get a /)" '200 503 503'
}

@test "an invalid expression, or one that looks up other requests, stops the start" {
  check_config 'VhostLimit On' -v 'a VhostLimitExempt "%{REQUEST_URI} ==="'
  is "$status" 1
  like "$output" "VhostLimitExempt: '%.REQUEST_URI. ===':"
  local lookup
  for lookup in '-U %{REQUEST_URI}' '-A %{REQUEST_URI}' "! -U'/x'" '-F%{REQUEST_URI}' "%{REMOTE_HOST} == 'x'" "%{REMOTE_IDENT} == 'x'"; do
    check_config 'VhostLimit On' -v "a VhostLimitExempt \"$lookup\""
    is "$status" 1
    like "$output" '-A, -U, -F, REMOTE_HOST and REMOTE_IDENT look something up'
  done
  check_config 'VhostLimit On' -v "a VhostLimitExempt \"%{REQUEST_URI} == '/x-A-U' && -n 'F'\""
  is "$status" 0
}

queues_with_buckets_on() { # <mpm>
  (($(nproc) > 1)) || skip "one processor, one bucket"
  start_httpd -m "$1" 'ListenCoresBucketsRatio 1' 'VhostLimit On' -v 'a VhostLimitConcurrency 1'
  hold_request one
  line_up a /page.html /sub/
  is "$(get b /) $(status_of a method)" '200 socket'
  release_request one
  is "$(answer_of pagehtml) $(answer_of sub) $(status_of a queued)" '200 200 2'
}

@test "event: ListenCoresBucketsRatio has no effect, and requests are queued as sockets" { queues_with_buckets_on event; }

@test "worker and prefork: ListenCoresBucketsRatio has no effect, and requests are queued as sockets" {
  MPMS='worker prefork' on_each_mpm queues_with_buckets_on
}

@test "listener buckets from before the module was loaded: the log says what to do, and requests are queued with their threads" {
  (($(nproc) > 1)) || skip "one processor, one bucket"
  start_httpd -n 'ListenCoresBucketsRatio 1'
  configure_httpd 'ListenCoresBucketsRatio 1' 'VhostLimit On' -v 'a VhostLimitConcurrency 1'
  graceful_httpd
  like "$(error_log)" 'VL0079: requests wait with their threads or processes.* ListenCoresBucketsRatio .* Stop and start Apache'
  hold_request one
  line_up a /page.html
  is "$(get b /) $(status_of a method)" '200 thread'
  release_request one
  is "$(answer_of pagehtml) $(status_of a queued)" '200 1'
  # The buckets of a later configuration without the module work again.
  is "$(listening_sockets)" "$(nproc)" "buckets"
  restart_httpd
  is "$(listening_sockets) $(status_of a method)" '1 socket'
  configure_httpd 'ListenCoresBucketsRatio 1' 'VhostLimit Off'
  restart_httpd
  is "$(listening_sockets)" "$(nproc)" "buckets of a configuration without limits"
}
listening_sockets() { awk -v port="$(printf ':%04X' "$(httpd_port)")" '$2 == "0100007F" port && $4 == "0A"' /proc/net/tcp | wc -l; }

@test "prefork, with a listener of another protocol: a site uses at most four fifths of the processes" {
  requires prefork
  start_httpd -m prefork -t 'StartServers 8' -t 'MaxRequestWorkers 8' -t 'ServerLimit 8' \
    "Listen 127.0.0.1:$(free_port other) other" 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'b VhostLimitConcurrency 1'
  local n
  hold_request one; hold_request two b
  for n in 1 2 3 4; do begin_request "a$n" a /page.html; settles a waiting "$n"; done
  begin_request b1 b /page.html
  settles b waiting 1
  is "$(get a /) $(get c /)" '503 200'
  log_line a '^GET / 503 action=refused reason=queue '
  is "$(status_of a refused_queue)" 1
  release_request one; release_request two
  is "$(answer_of a1) $(answer_of a2) $(answer_of a3) $(answer_of a4) $(answer_of b1)" '200 200 200 200 200'
  settles a running 0
}

spends_its_cap_on() { # <mpm>
  start_httpd -m "$1" -l lua 'VhostLimit On' 'VhostLimitCgroup off' -v 'a VhostLimitCPU 5%' \
    -v "a LuaMapHandler /burn $HTTPD_ROOT/lua/burn.lua"
  local n
  for n in {1..4}; do is "$(get a /burn)" 200; done
  at_least "$(status_of a queued)" 1 'requests that waited for credit'
  is "$(get b /)" 200
}

@test "event and prefork: requests of a site that has used up its CPU cap are queued and served" {
  requires mod_lua
  MPMS='event prefork' on_each_mpm spends_its_cap_on
}

@test "a head of more than eight kilobytes counts for its own vhost only" {
  start_httpd 'VhostLimit On' -v 'b VhostLimitConcurrency 1' -v 'b VhostLimitQueue 0'
  local get='GET /page.html HTTP/1.1\r\n' host='Host: b.test\r\n' close='Connection: close\r\n\r\n' fill i
  fill=$(for i in 1 2 3; do printf 'X-%s: %s\\r\\n' "$i" "$(head -c 4000 /dev/zero | tr '\0' x)"; done)
  hold_request one b
  like "$(packets "$get$host$fill$close")" '^HTTP/1.1 503 ' "Host first"
  like "$(packets "$get$fill$host$close")" '^HTTP/1.1 503 ' "Host last"
  is "$(status_of b running) $(status_of a requests)" '1 0'
  release_request one
  is "$(answer_of one)" 200
}
