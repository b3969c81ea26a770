#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Each kind of request is counted once, and its slot is released. All tests share a server.

load lib/live
export ONE_SERVER=yes

setup_file() {
  start_httpd 'VhostLimit On' 'EnableSendfile On' -l include -l rewrite -l negotiation -l proxy -l proxy_http \
    -v 'a AddOutputFilter INCLUDES .shtml' \
    -v 'a ErrorDocument 404 /page.html' -v 'a ErrorDocument 500 "plain words"' \
    -v 'a RewriteEngine On' -v 'a RewriteRule ^/inside$ /page.html [PT]' \
    -v 'a RewriteRule ^/outside$ /page.html [R=302]' \
    -v "a ProxyPass /back/ http://127.0.0.2:$(httpd_port)/" \
    -v 'b DirectoryIndex nope.html nothing.html index.html' \
    -v 'b ErrorDocument 404 /missing-as-well.html' \
    -v "b <Directory \"$HTTPD_ROOT/htdocs/b\">" -v 'b RewriteEngine On' -v 'b RewriteRule ^again$ /page.html [L]' -v 'b </Directory>'
}

teardown_file() { end_server; }

got() { is "$(get "${@:2}")" "$1" "status of $3"; }  # <status> <vhost> <path> [curl argument]...

# The body is compared without line ends, where one is given.
@test "each kind of request is counted once" {
  local what status vhost path options body
  while IFS='|' read -r what status vhost path options body; do
    eval "options=($options)"
    # shellcheck disable=SC2128  # an array since eval
    counts_as 1 "$vhost" got "$status" "$vhost" "$path" "${options[@]}" || fail "$what"
    [[ -z $body ]] || is "$(answer_body | tr -d '\n')" "$body" "$what"
  done <<'END'
a page|200|a|/page.html
a page that does not exist|404|c|/nope
HEAD|200|a|/page.html|-I
POST with a body|200|a|/cgi/echo.sh|--data-binary @"$HTTPD_ROOT/htdocs/a/page.html"
POST with a chunked body|200|a|/cgi/echo.sh|-H 'Transfer-Encoding: chunked' -d some -d thing|10 bytes
POST to a static file|200|c|/page.html|-d body|page of c
a method that a static file does not allow|405|c|/page.html|-X DELETE -d body
POST with Expect: 100-continue|200|a|/cgi/echo.sh|-H 'Expect: 100-continue' -d body
a range|206|a|/big.bin|-r 1000-1999
a range that cannot be satisfied|416|c|/page.html|-r 100000-
HTTP/1.0|200|a|/page.html|-0
a directory and its index (internal redirect)|200|b|/sub/||sub of b
a directory without its slash (external redirect)|301|b|/sub
an ErrorDocument (internal redirect)|404|a|/nope||page of a
an ErrorDocument that does not exist|404|b|/nope
a script's local redirect|200|a|/cgi/redirect.sh||page of a
mod_rewrite inside the server|200|a|/inside
mod_rewrite in a directory (internal redirect)|200|b|/again||page of b
mod_rewrite with an external redirect|302|a|/outside
a page that includes two others by subrequests|200|a|/ssi.shtml||[page of apage of a]
a script that fails|500|a|/cgi/fail.sh
a proxied request|200|a|/back/page.html||page of main
END
}

@test "a conditional request that is answered 304 is counted once" {
  got 200 c /page.html
  counts_as 1 c got 304 c /page.html -H "If-None-Match: $(answer_head ETag)"
}

@test "a large file is counted once" {
  counts_as 1 a got 200 a /big.bin
  is "$(answer_body | wc -c)" $((64 << 20)) "bytes"
}

@test "ten requests on one keep-alive connection are counted as ten" {
  counts_as 10 a ten_on_one_connection
}
ten_on_one_connection() {
  is "$(web -o /dev/null -w '%{http_code} %{num_connects}\n' "$(url a '/page.html?[1-10]')" | sort | uniq -c | xargs)" \
    '9 200 0 1 200 1' "status and new connections"
}

@test "fifty pipelined requests are counted as fifty" {
  counts_as 50 a fifty_pipelined
}
fifty_pipelined() { is "$(pipeline a 50 /page.html / /inside | sort | uniq -c | xargs)" '50 200' "answers"; }

@test "two requests on one connection are counted in the vhost of each" {
  local before
  before=$(status_of b requests)
  counts_as 1 a web -o /dev/null -H 'Host: a.test' "$(url a /page.html)" \
    --next -q -sS -H 'Host: b.test' -o /dev/null "$(url a /page.html)"
  settles b requests $((before + 1))
}

@test "a client that closes in the middle of a large file is counted once" {
  counts_as 1 a abort_request a /big.bin
}

@test "a response that is being sent to a slow client holds no slot" {
  requires event        # the others write with the worker
  local fd before
  before=$(status_of a requests)
  exec {fd}<>"/dev/tcp/127.0.0.1/$(httpd_port)"
  printf 'GET /big.bin HTTP/1.1\r\nHost: a.test\r\n\r\n' >&"$fd"
  head -c 1000 <&"$fd" >/dev/null
  settles a requests $((before + 1))
  settles a running 0
  exec {fd}>&-
}

@test "a client that closes before a script answers is counted once" {
  counts_as 1 a begin_and_close
}
begin_and_close() {
  hold_request gone a --max-time 1
  is "$(answer_of gone)" 000
  release_request gone
}

@test "a client that closes in the middle of its POST is counted once" {
  counts_as 1 a close_in_body
}
close_in_body() {
  local fd before
  before=$(status_of a requests)
  exec {fd}<>"/dev/tcp/127.0.0.1/$(httpd_port)"
  printf 'POST /cgi/echo.sh HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nhalf' >&"$fd"
  wait_until 20 status_is a requests "$((before + 1))"
  exec {fd}>&-
}

@test "OPTIONS * and TRACE are counted once" {
  counts_as 1 a answers_raw '^HTTP/1.1 200 ' 'OPTIONS * HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'
  counts_as 1 a answers_raw '^HTTP/1.1 200 .*TRACE / ' 'TRACE / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'
}
raw_as_is() { printf '%b' "$1" | raw; }
answers_raw() { like "$(raw_as_is "$2")" "$1"; }  # <regular expression> <text>

@test "garbage, a request line that is too long, and HTTP/1.1 without Host are counted once" {
  counts_as 1 a answers_raw '400 Bad Request' 'garbage\r\n\r\n'
  counts_as 1 a answers_raw '^HTTP/1.1 414 ' "GET /$(head -c 20000 /dev/zero | tr '\0' x) HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n"
  counts_as 1 a answers_raw '400 Bad Request' 'GET / HTTP/1.1\r\n\r\n'
  settles a running 0
  settles b running 0
}

@test "a request that matches no vhost belongs to the main server's account" {
  counts_as 1 main got 200 main /
  is "$(answer_body)" 'index of main'
}

@test "a request with an unknown name belongs to the first vhost" {
  counts_as 1 a got 200 a / -H 'Host: unknown.test'
  is "$(answer_body)" 'index of a'
}
