#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Whatever comes in, the answer is that of the same server without the module.
# Both run side by side, for all tests; ours has one slot, so that much waits.
# mod_unique_id has a say in each line of the log that is about a request.

load lib/live
export ONE_SERVER=yes

SITE=(-l headers -l unique_id 'LogLevel debug' -v 'a Header always set X-Vhost a' -v 'b Header always set X-Vhost b'
  -v 'c Header always set X-Vhost c' 'ServerSignature On')

setup_file() {
  start_httpd "${SITE[@]}" 'VhostLimit On' 'VhostLimitSlots 1'
  plain start_httpd -n "${SITE[@]}"
}

stop_plain() { plain stop_httpd; }
teardown_file() { all_of stop_plain end_server; }

# The command, talking to the server without the module.
plain() { # <command>...
  local BATS_FILE_TMPDIR=$BATS_FILE_TMPDIR/plain
  # shellcheck disable=SC2034  # the helpers read it
  local HTTPD_ROOT=$BATS_FILE_TMPDIR/httpd
  mkdir -p "$BATS_FILE_TMPDIR"
  chmod a+x "$BATS_FILE_TMPDIR"
  "$@"
}

# Without what differs between two servers of the same kind, or two runs.
answer() { # <step>...
  packets "$@" | sed -E "/^(Date|Last-Modified|ETag|Content-Length|Transfer-Encoding): /d
    /^[0-9a-f]*\r\$/d; s/:?$(httpd_port)//g"
}

# All of the answer: status line, vhost, other headers, body.
same() { # <pattern the answer has> <step>...
  local want began=$SECONDS took
  plain answer "${@:2}" >"$BATS_TEST_TMPDIR/plain"
  took=$((SECONDS - began)) began=$SECONDS
  answer "${@:2}" >"$BATS_TEST_TMPDIR/ours"
  want=$(<"$BATS_TEST_TMPDIR/plain")
  like "$want" "$1" "what plain answers"
  is "$(<"$BATS_TEST_TMPDIR/ours")" "$want" "what the server with the module answers"
  # packets.pl gives up after 15 s: an answer that the module holds back would differ.
  at_most $((SECONDS - began)) $((took + 10 * SLOWER)) "seconds with the module"
  settles a running 0
  settles a waiting 0
}

a_vhost() { printf '(^|\n)X-Vhost: %s\r\n' "$1"; }  # <vhost>

GET='GET /page.html HTTP/1.1\r\n' CLOSE='Connection: close\r\n\r\n'

@test "an ordinary request" {
  same "$(a_vhost b)" "${GET}Host: b.test\r\n$CLOSE"
}

@test "no Host" {
  same '^HTTP/1.1 400 ' "$GET$CLOSE"
}

@test "an empty Host" {
  same "$(a_vhost a)" "${GET}Host:\r\n$CLOSE"
  same "$(a_vhost a)" "${GET}Host:   \r\n$CLOSE"
}

@test "a Host of eight kilobytes, and one of four" {
  local long
  long=$(head -c 8192 /dev/zero | tr '\0' h)
  same '^HTTP/1.1 400 ' "${GET}Host: $long\r\n$CLOSE"
  same '^HTTP/1.1 [24]00 ' "${GET}Host: ${long:4096}\r\n$CLOSE"
}

@test "a Host behind eight kilobytes of other headers" {
  local fill i
  fill=$(for i in 1 2 3; do printf 'X-%s: %s\\r\\n' "$i" "$(head -c 4000 /dev/zero | tr '\0' x)"; done)
  same "$(a_vhost c)" "$GET${fill}Host: c.test\r\n$CLOSE"
}

@test "a Host with a port, whichever" {
  same "$(a_vhost b)" "${GET}Host: b.test:80\r\n$CLOSE"
  same "$(a_vhost c)" "${GET}Host: c.test:12345\r\n$CLOSE"
  same '^HTTP/1.1 [24]00 ' "${GET}Host: b.test:\r\n$CLOSE"
  same '^HTTP/1.1 [24]00 ' "${GET}Host: b.test:99999\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}Host: b.test:x\r\n$CLOSE"
}

@test "a Host in upper case, with a dot at its end, with blanks around it" {
  same "$(a_vhost b)" "${GET}HOST: B.TEST\r\n$CLOSE"
  same "$(a_vhost b)" "${GET}host: b.test.\r\n$CLOSE"
  same "$(a_vhost b)" "${GET}Host:   b.test  \r\n$CLOSE"
  same "$(a_vhost b)" "${GET}Host:b.test\r\n$CLOSE"
}

@test "a Host that is an address" {
  same "$(a_vhost a)" "${GET}Host: [::1]\r\n$CLOSE"
  same "$(a_vhost a)" "${GET}Host: [::1]:80\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}Host: [::1\r\n$CLOSE"
  same "$(a_vhost a)" "${GET}Host: 127.0.0.1\r\n$CLOSE"
}

@test "a Host with bytes above 127, with a NUL, with a slash" {
  same '^HTTP/1.1 400 ' "${GET}Host: b\xff\xe9.test\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}Host: b\x00.test\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}Host: b.test/x\r\n$CLOSE"
}

@test "two lines of Host, in either order" {
  same '^HTTP/1.1 400 ' "${GET}Host: b.test\r\nHost: c.test\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}Host: c.test\r\nHost: b.test\r\n$CLOSE"
}

@test "a Host line that is folded, and one with a blank before the colon" {
  same '^HTTP/1.1 [24]00 ' "${GET}Host:\r\n b.test\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}Host : b.test\r\n$CLOSE"
}

@test "a request line with the whole address, which wins over Host" {
  same "$(a_vhost b)" "GET http://b.test/page.html HTTP/1.1\r\nHost: b.test\r\n$CLOSE"
  same "$(a_vhost b)" "GET http://b.test/page.html HTTP/1.1\r\nHost: c.test\r\n$CLOSE"
  same "$(a_vhost b)" "GET HTTP://B.test:81/page.html HTTP/1.1\r\nHost: c.test\r\n$CLOSE"
}

@test "lines that end without a carriage return" {
  same '^HTTP/1.1 [24]00 ' "GET /page.html HTTP/1.1\nHost: b.test\nConnection: close\n\n"
}

@test "HTTP/0.9" {
  same '^page of a' 'GET /page.html\r\n'
}

@test "HTTP/1.0 without Host, and with one" {
  same "$(a_vhost a)" 'GET /page.html HTTP/1.0\r\n\r\n'
  same "$(a_vhost c)" 'GET /page.html HTTP/1.0\r\nHost: c.test\r\n\r\n'
}

@test "garbage" {
  same 400 'garbage\r\n\r\n'
  same 400 '\x00\x01\x02\xff\xfe\r\n\r\n'
  same 400 '\x16\x03\x01\x00\x05hello\r\n\r\n'
  same "$(a_vhost b)" 'GET / HTTP/9.9\r\nHost: b.test\r\nConnection: close\r\n\r\n'
}

@test "an empty line first" {
  same "$(a_vhost b)" "\r\n${GET}Host: b.test\r\n$CLOSE"
  same "$(a_vhost b)" '\r\n' @50 "${GET}Host: b.test\r\n$CLOSE"
}

@test "one byte at a time" {
  same "$(a_vhost b)" @bytes:3 "${GET}Host: b.test\r\n$CLOSE"
}

@test "a head that is cut in two packets, at every position" {
  same '^[0-9]+ HTTP/1.1 200 .*page of b' --cut "${GET}Host: b.test\r\n$CLOSE"
  is "$(wc -l <"$BATS_TEST_TMPDIR/ours")" 1 "different answers"
}

@test "a POST whose client waits for 100 Continue" {
  same '^HTTP/1.1 100 .*'$'\n''HTTP/1.1 200 .*4 bytes' \
    "POST /cgi/echo.sh HTTP/1.1\r\nHost: b.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n$CLOSE" @300 body
}

@test "a POST whose body comes later, whole and by halves" {
  local head="POST /cgi/echo.sh HTTP/1.1\r\nHost: b.test\r\nContent-Length: 8\r\n$CLOSE"
  same '8 bytes' "$head" @300 halfhalf
  same '8 bytes' "$head" @100 half @200 half
  same '8 bytes' "${head}half" @200 half
}

@test "a POST in chunks that come one by one" {
  same '6 bytes' "POST /cgi/echo.sh HTTP/1.1\r\nHost: c.test\r\nTransfer-Encoding: chunked\r\n$CLOSE" \
    @50 '3\r\none\r\n' @50 '3\r\ntwo\r\n' @50 '0\r\n\r\n'
}

@test "two requests in one packet, of two vhosts" {
  same "$(a_vhost b).*$(a_vhost c)" "${GET}Host: b.test\r\n\r\n${GET}Host: c.test\r\n$CLOSE"
}

@test "a second request later, of another vhost" {
  same "$(a_vhost b).*$(a_vhost c)" "${GET}Host: b.test\r\n\r\n" @100 "${GET}Host: c.test\r\n$CLOSE"
}

@test "a client that says it will send no more and waits for its answer" {
  same "$(a_vhost b)" "${GET}Host: b.test\r\n$CLOSE" @half
  same "$(a_vhost b)" "${GET}Host: b.test\r\n\r\n" @half
  same '^$|400|408' "${GET}Host: b.te" @half
  same '^$' @half
}

@test "a connection that sends nothing and closes" {
  same '^$' @close
  same '^$' @100 @close
}

@test "a client that is gone in the middle of its head" {
  same '^$' "${GET}Host: b" @close
  same '^$' "${GET}Host: b" @100 @close
}

@test "a PROXY line that nobody expects" {
  same '400 Bad Request' "PROXY TCP4 192.0.2.1 192.0.2.2 1111 80\r\n${GET}Host: b.test\r\n$CLOSE"
  same '400 Bad Request' "\x0d\x0a\x0d\x0a\x00\x0d\x0aQUIT\x0a\x20\x00\x00\x00${GET}Host: b.test\r\n$CLOSE"
}

@test "shapes of request smuggling" {
  same '^HTTP/1.1 400 ' "POST /cgi/echo.sh HTTP/1.1\r\nHost: b.test\r\nContent-Length: 4\r\nContent-Length: 5\r\n${CLOSE}body"
  same '^HTTP/1.1 [24]00 ' "POST /cgi/echo.sh HTTP/1.1\r\nHost: b.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n${CLOSE}0\r\n\r\n"
}

# The head may say it in ways that two servers understand differently; a second
# request follows, which one of them would take for a body.
smuggled() { # <pattern the answer has> <fields with their \r\n>
  same "$1" "POST /cgi/echo.sh HTTP/1.1\r\nHost: b.test\r\n$2\r\n0\r\n\r\n${GET}Host: c.test\r\n$CLOSE"
}

@test "more shapes of it, with a request of another vhost behind" {
  smuggled '^HTTP/1.1 400 ' 'Content-Length: 5, 5\r\n'
  smuggled '^HTTP/1.1 400 ' 'Content-Length: +5\r\n'
  smuggled '^HTTP/1.1 [245]0' "Content-Length: 5\r\nContent-Length: 5\r\n"
  smuggled '^HTTP/1.1 [245]0' 'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n'
  smuggled '^HTTP/1.1 [245]0' 'Transfer-Encoding: xchunked\r\n'
  smuggled '^HTTP/1.1 400 ' 'Transfer-Encoding : chunked\r\n'
  smuggled '^HTTP/1.1 [245]0' 'X: y\r\n Transfer-Encoding: chunked\r\n'
}

@test "64 KB of headers: one field, a thousand, and a Host behind them" {
  local long many
  long=$(head -c 65536 /dev/zero | tr '\0' x)
  many=$(seq 1000 | sed 's/.*/X-&: '"$(head -c 55 /dev/zero | tr '\0' y)"'\\r\\n/' | tr -d '\n')
  same '^HTTP/1.1 400 ' "${GET}Host: b.test\r\nX: $long\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}X: $long\r\nHost: b.test\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "$GET${many}Host: b.test\r\n$CLOSE"
}

@test "a request line that is too long" {
  same '^HTTP/1.1 414 ' "GET /$(head -c 20000 /dev/zero | tr '\0' x) HTTP/1.1\r\nHost: b.test\r\n$CLOSE"
}

@test "what was let in was counted in the vhost that answered" {
  counts_as 1 b packets "${GET}Host: b.test\r\n$CLOSE"
  counts_as 1 c packets "GET http://c.test/page.html HTTP/1.1\r\nHost: b.test\r\n$CLOSE"
  counts_as 1 a packets 'GET /page.html\r\n'
}
