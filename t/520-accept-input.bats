#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The server with the module gives the same response as plain Apache, whatever the input.
# Both servers run for all tests; the one with the module has one slot, so that requests
# are queued. mod_unique_id is loaded because it runs for each logged request.

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

plain() { on_server_named plain "$@"; }         # <command>...: for the server without the module

# Prints the response without parts that differ between two servers or two runs.
answer() { # <step>...
  packets "$@" | sed -E "/^(Date|Last-Modified|ETag|Content-Length|Transfer-Encoding): /d
    /^[0-9a-f]*\r\$/d; s/:?$(httpd_port)//g"
}

# Compares the complete responses: status line, vhost, other headers, body.
same() { # <pattern the answer has> <step>...
  local want began=$SECONDS took
  plain answer "${@:2}" >"$BATS_TEST_TMPDIR/plain"
  took=$((SECONDS - began)) began=$SECONDS
  answer "${@:2}" >"$BATS_TEST_TMPDIR/ours"
  want=$(<"$BATS_TEST_TMPDIR/plain")
  like "$want" "$1" "what plain answers"
  is "$(<"$BATS_TEST_TMPDIR/ours")" "$want" "what the server with the module answers"
  # packets.pl gives up after 15 s, so a response that the module holds back would differ.
  at_most $((SECONDS - began)) $((took + 10 * SLOWER)) "seconds with the module"
  settles a running 0
  settles a waiting 0
}

from_vhost() { printf '(^|\n)X-Vhost: %s\r\n' "$1"; }  # <vhost>

GET='GET /page.html HTTP/1.1\r\n' CLOSE='Connection: close\r\n\r\n'

@test "same response as plain Apache: an ordinary request" {
  same "$(from_vhost b)" "${GET}Host: b.test\r\n$CLOSE"
}

@test "same response as plain Apache: no Host" {
  same '^HTTP/1.1 400 ' "$GET$CLOSE"
}

@test "same response as plain Apache: an empty Host" {
  same "$(from_vhost a)" "${GET}Host:\r\n$CLOSE"
  same "$(from_vhost a)" "${GET}Host:   \r\n$CLOSE"
}

@test "same response as plain Apache: a Host of eight kilobytes, and one of four" {
  local long
  long=$(head -c 8192 /dev/zero | tr '\0' h)
  same '^HTTP/1.1 400 ' "${GET}Host: $long\r\n$CLOSE"
  same '^HTTP/1.1 [24]00 ' "${GET}Host: ${long:4096}\r\n$CLOSE"
}

@test "same response as plain Apache: a Host behind eight kilobytes of other headers" {
  local fill i
  fill=$(for i in 1 2 3; do printf 'X-%s: %s\\r\\n' "$i" "$(head -c 4000 /dev/zero | tr '\0' x)"; done)
  same "$(from_vhost c)" "$GET${fill}Host: c.test\r\n$CLOSE"
}

@test "same response as plain Apache: a Host with any port" {
  same "$(from_vhost b)" "${GET}Host: b.test:80\r\n$CLOSE"
  same "$(from_vhost c)" "${GET}Host: c.test:12345\r\n$CLOSE"
  same '^HTTP/1.1 [24]00 ' "${GET}Host: b.test:\r\n$CLOSE"
  same '^HTTP/1.1 [24]00 ' "${GET}Host: b.test:99999\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}Host: b.test:x\r\n$CLOSE"
}

@test "same response as plain Apache: a Host in upper case, with a final dot, with blanks" {
  same "$(from_vhost b)" "${GET}HOST: B.TEST\r\n$CLOSE"
  same "$(from_vhost b)" "${GET}host: b.test.\r\n$CLOSE"
  same "$(from_vhost b)" "${GET}Host:   b.test  \r\n$CLOSE"
  same "$(from_vhost b)" "${GET}Host:b.test\r\n$CLOSE"
}

@test "same response as plain Apache: a Host that is an address" {
  same "$(from_vhost a)" "${GET}Host: [::1]\r\n$CLOSE"
  same "$(from_vhost a)" "${GET}Host: [::1]:80\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}Host: [::1\r\n$CLOSE"
  same "$(from_vhost a)" "${GET}Host: 127.0.0.1\r\n$CLOSE"
}

@test "same response as plain Apache: a Host with bytes above 127, with a NUL, with a slash" {
  same '^HTTP/1.1 400 ' "${GET}Host: b\xff\xe9.test\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}Host: b\x00.test\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}Host: b.test/x\r\n$CLOSE"
}

@test "same response as plain Apache: two lines of Host, in either order" {
  same '^HTTP/1.1 400 ' "${GET}Host: b.test\r\nHost: c.test\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}Host: c.test\r\nHost: b.test\r\n$CLOSE"
}

@test "same response as plain Apache: a folded Host line, and a blank before the colon" {
  same '^HTTP/1.1 [24]00 ' "${GET}Host:\r\n b.test\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}Host : b.test\r\n$CLOSE"
}

@test "same response as plain Apache: an absolute URL in the request line, which overrides Host" {
  same "$(from_vhost b)" "GET http://b.test/page.html HTTP/1.1\r\nHost: b.test\r\n$CLOSE"
  same "$(from_vhost b)" "GET http://b.test/page.html HTTP/1.1\r\nHost: c.test\r\n$CLOSE"
  same "$(from_vhost b)" "GET HTTP://B.test:81/page.html HTTP/1.1\r\nHost: c.test\r\n$CLOSE"
}

@test "same response as plain Apache: lines that end without a carriage return" {
  same '^HTTP/1.1 [24]00 ' "GET /page.html HTTP/1.1\nHost: b.test\nConnection: close\n\n"
}

@test "same response as plain Apache: HTTP/0.9" {
  same '^page of a' 'GET /page.html\r\n'
}

@test "same response as plain Apache: HTTP/1.0 without Host, and with one" {
  same "$(from_vhost a)" 'GET /page.html HTTP/1.0\r\n\r\n'
  same "$(from_vhost c)" 'GET /page.html HTTP/1.0\r\nHost: c.test\r\n\r\n'
}

@test "same response as plain Apache: garbage" {
  same 400 'garbage\r\n\r\n'
  same 400 '\x00\x01\x02\xff\xfe\r\n\r\n'
  same 400 '\x16\x03\x01\x00\x05hello\r\n\r\n'
  same "$(from_vhost b)" 'GET / HTTP/9.9\r\nHost: b.test\r\nConnection: close\r\n\r\n'
}

@test "same response as plain Apache: an empty line before the request" {
  same "$(from_vhost b)" "\r\n${GET}Host: b.test\r\n$CLOSE"
  same "$(from_vhost b)" '\r\n' @50 "${GET}Host: b.test\r\n$CLOSE"
}

@test "same response as plain Apache: one byte at a time" {
  same "$(from_vhost b)" @bytes:3 "${GET}Host: b.test\r\n$CLOSE"
}

@test "same response as plain Apache: a head in two packets, cut at every position" {
  same '^[0-9]+ HTTP/1.1 200 .*page of b' --cut "${GET}Host: b.test\r\n$CLOSE"
  is "$(wc -l <"$BATS_TEST_TMPDIR/ours")" 1 "different answers"
}

@test "same response as plain Apache: a POST whose client waits for 100 Continue" {
  same '^HTTP/1.1 100 .*'$'\n''HTTP/1.1 200 .*4 bytes' \
    "POST /cgi/echo.sh HTTP/1.1\r\nHost: b.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n$CLOSE" @300 body
}

@test "same response as plain Apache: a POST whose body comes later, at once and in two halves" {
  local head="POST /cgi/echo.sh HTTP/1.1\r\nHost: b.test\r\nContent-Length: 8\r\n$CLOSE"
  same '8 bytes' "$head" @300 halfhalf
  same '8 bytes' "$head" @100 half @200 half
  same '8 bytes' "${head}half" @200 half
}

@test "same response as plain Apache: a POST in chunks, each in its packet" {
  same '6 bytes' "POST /cgi/echo.sh HTTP/1.1\r\nHost: c.test\r\nTransfer-Encoding: chunked\r\n$CLOSE" \
    @50 '3\r\none\r\n' @50 '3\r\ntwo\r\n' @50 '0\r\n\r\n'
}

@test "same response as plain Apache: two requests of two vhosts in one packet" {
  same "$(from_vhost b).*$(from_vhost c)" "${GET}Host: b.test\r\n\r\n${GET}Host: c.test\r\n$CLOSE"
}

@test "same response as plain Apache: a second request later, of another vhost" {
  same "$(from_vhost b).*$(from_vhost c)" "${GET}Host: b.test\r\n\r\n" @100 "${GET}Host: c.test\r\n$CLOSE"
}

@test "same response as plain Apache: a client that closes its sending half" {
  same "$(from_vhost b)" "${GET}Host: b.test\r\n$CLOSE" @half
  same "$(from_vhost b)" "${GET}Host: b.test\r\n\r\n" @half
  same '^$|400|408' "${GET}Host: b.te" @half
  same '^$' @half
}

@test "same response as plain Apache: a connection that closes without a byte" {
  same '^$' @close
  same '^$' @100 @close
}

@test "same response as plain Apache: a client that closes in the middle of its head" {
  same '^$' "${GET}Host: b" @close
  same '^$' "${GET}Host: b" @100 @close
}

@test "same response as plain Apache: an unexpected PROXY header" {
  same '400 Bad Request' "PROXY TCP4 192.0.2.1 192.0.2.2 1111 80\r\n${GET}Host: b.test\r\n$CLOSE"
  same '400 Bad Request' "\x0d\x0a\x0d\x0a\x00\x0d\x0aQUIT\x0a\x20\x00\x00\x00${GET}Host: b.test\r\n$CLOSE"
}

@test "same response as plain Apache: request smuggling with two lengths" {
  same '^HTTP/1.1 400 ' "POST /cgi/echo.sh HTTP/1.1\r\nHost: b.test\r\nContent-Length: 4\r\nContent-Length: 5\r\n${CLOSE}body"
  same '^HTTP/1.1 [24]00 ' "POST /cgi/echo.sh HTTP/1.1\r\nHost: b.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n${CLOSE}0\r\n\r\n"
}

# The length of the body is ambiguous, and a second request follows that could be taken for
# the body.
smuggled() { # <pattern the answer has> <fields with their \r\n>
  same "$1" "POST /cgi/echo.sh HTTP/1.1\r\nHost: b.test\r\n$2\r\n0\r\n\r\n${GET}Host: c.test\r\n$CLOSE"
}

@test "same response as plain Apache: request smuggling before a request of another vhost" {
  smuggled '^HTTP/1.1 400 ' 'Content-Length: 5, 5\r\n'
  smuggled '^HTTP/1.1 400 ' 'Content-Length: +5\r\n'
  smuggled '^HTTP/1.1 [245]0' "Content-Length: 5\r\nContent-Length: 5\r\n"
  smuggled '^HTTP/1.1 [245]0' 'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n'
  smuggled '^HTTP/1.1 [245]0' 'Transfer-Encoding: xchunked\r\n'
  smuggled '^HTTP/1.1 400 ' 'Transfer-Encoding : chunked\r\n'
  smuggled '^HTTP/1.1 [245]0' 'X: y\r\n Transfer-Encoding: chunked\r\n'
}

@test "same response as plain Apache: 64 KB of headers, in one field, in a thousand, and before Host" {
  local long many
  long=$(head -c 65536 /dev/zero | tr '\0' x)
  many=$(seq 1000 | sed 's/.*/X-&: '"$(head -c 55 /dev/zero | tr '\0' y)"'\\r\\n/' | tr -d '\n')
  same '^HTTP/1.1 400 ' "${GET}Host: b.test\r\nX: $long\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "${GET}X: $long\r\nHost: b.test\r\n$CLOSE"
  same '^HTTP/1.1 400 ' "$GET${many}Host: b.test\r\n$CLOSE"
}

@test "same response as plain Apache: a request line that is too long" {
  same '^HTTP/1.1 414 ' "GET /$(head -c 20000 /dev/zero | tr '\0' x) HTTP/1.1\r\nHost: b.test\r\n$CLOSE"
}

@test "a request is counted in the vhost that answered it" {
  counts_as 1 b packets "${GET}Host: b.test\r\n$CLOSE"
  counts_as 1 c packets "GET http://c.test/page.html HTTP/1.1\r\nHost: b.test\r\n$CLOSE"
  counts_as 1 a packets 'GET /page.html\r\n'
}
