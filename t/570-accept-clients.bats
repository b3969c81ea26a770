#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Real clients and neighbors: nghttp, Chromium, git, HAProxy, mod_proxy, mod_cache and
# OpenSSL, while requests of their vhost are queued.

# shellcheck disable=SC2030,SC2031  # each test is a shell of its own
load lib/live
load lib/tls
load lib/browser

ONE_AT_A_TIME=('VhostLimit On' "VhostLimitQueue 100 $((30 * SLOWER))s")

teardown() {
  local pid
  end_browser
  for pid in "${helpers[@]}"; do kill "$pid" 2>/dev/null || :; done
  end_server
}
helpers=()

# ---- HTTP/2 ----------------------------------------------------------------------

@test "nghttp: streams of one connection are queued and answered, on worker" {
  requires nghttp mod_http2 worker
  local many_pid
  start_httpd -m worker -l http2 'Protocols h2c http/1.1' "${ONE_AT_A_TIME[@]}" -v 'a VhostLimitConcurrency 1'
  hold_request one a
  in_background many nghttp -ns -H ":authority: a.test:$(httpd_port)" "http://127.0.0.1:$(httpd_port)/page.html" \
    "http://127.0.0.1:$(httpd_port)/sub/" "http://127.0.0.1:$(httpd_port)/index.html"
  settles a waiting 3
  release_request one
  wait "$many_pid"
  is "$(grep -cE ' 200 +[0-9]+ /' "$BATS_TEST_TMPDIR/many")" 3
}

@test "Chromium: a page over HTTP/2 and TLS is queued and served" {
  requires event chromium mod_ssl mod_http2 openssl
  start_tls -l http2 's: Protocols h2 http/1.1' "${ONE_AT_A_TIME[@]}" 's: VhostLimitConcurrency 1' 't: VhostLimitConcurrency 1'
  start_browser --ignore-certificate-errors
  open_page "$(url s /page.html)"
  is "$(in_page 'performance.getEntriesByType("navigation")[0].nextHopProtocol')" h2
  hold_request one s --http1.1
  in_page '(() => { window.got = ""; for (const p of ["/sub/", "/index.html"])
    fetch(p).then(r => { got += r.status + p }) })()' >/dev/null
  settles s waiting 1           # the connection, with both streams
  is "$(get t /page.html -m 8)" 200
  release_request one
  wait_until 10 has_fetched
}
has_fetched() { [[ $(in_page got) =~ ^200/(sub/200/index.html|index.html200/sub/)$ ]]; }

# ---- long-lived --------------------------------------------------------------------

@test "Chromium: a WebSocket holds no slot" {
  requires chromium mod_proxy_wstunnel
  local echo_port
  echo_port=$(free_port echo)
  in_background echo perl "$TOP/t/lib/websocket_echo.pl" "$echo_port" 60
  # shellcheck disable=SC2154  # in_background sets it
  helpers+=("$echo_pid")
  start_httpd -l proxy -l proxy_wstunnel "${ONE_AT_A_TIME[@]}" -v 'a VhostLimitConcurrency 1' \
    -v "a ProxyPass /ws ws://127.0.0.1:$echo_port/"
  start_browser
  open_page "$(url a /page.html)"
  in_page "(() => { window.ws = new WebSocket('ws://a.test:$(httpd_port)/ws'); window.heard = '';
    ws.onopen = () => ws.send('hello'); ws.onmessage = m => { heard += m.data } })()" >/dev/null
  wait_until 10 hears hello
  settles a running 0
  is "$(get a /page.html -m 8)" 200
  in_page 'ws.send(" again")' >/dev/null
  wait_until 10 hears 'hello again'
  in_page 'ws.close()' >/dev/null
}
hears() { [[ $(in_page heard) == "$1" ]]; }  # <text>

@test "server-sent events hold no slot: more streams than slots run, and other requests are served" {
  local i
  start_httpd "${ONE_AT_A_TIME[@]}"
  for i in {1..12}; do
    mkfifo -m 666 "$HTTPD_ROOT/hold/sse$i.fifo"
    begin_request "sse$i" a "/cgi/events.sh?sse$i" -N
  done
  wait_until 20 all_begun 12
  settles a running 0
  is "$(get b /page.html -m 8)" 200
  for i in {1..12}; do let_go "$HTTPD_ROOT/hold/sse$i.fifo"; done
  for i in {1..12}; do is "$(answer_of "sse$i")" 200; done
  is "$(cat "$HTTPD_ROOT/hold"/sse*.body | grep -c 'data: last')" 12
}
all_begun() { [[ $(cat "$HTTPD_ROOT/hold"/sse*.body 2>/dev/null | grep -c 'data: first') == "$1" ]]; }  # <number>

# ---- git ------------------------------------------------------------------------------

start_git_server() {
  mkdir -p "$BATS_FILE_TMPDIR/git"
  start_httpd "${ONE_AT_A_TIME[@]}" -v 'a VhostLimitConcurrency 1' -v "a SetEnv GIT_PROJECT_ROOT \"$BATS_FILE_TMPDIR/git\"" \
    -v 'a SetEnv GIT_HTTP_EXPORT_ALL 1' -v "a ScriptAlias /git/ \"$(git --exec-path)/git-http-backend/\"" \
    -v "a <Directory \"$(git --exec-path)\">" -v 'a Require all granted' -v 'a </Directory>'
  git init -q --bare "$BATS_FILE_TMPDIR/git/r.git"
  git -C "$BATS_FILE_TMPDIR/git/r.git" config http.receivepack true
  chown -R "$(httpd_user)" "$BATS_FILE_TMPDIR/git"
}

git_here() { # <argument>...
  HOME=$BATS_TEST_TMPDIR GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 timeout 60 git -c user.name=t -c user.email=t@t.test \
    -c http.proxy= -c "http.curloptResolve=a.test:$(httpd_port):127.0.0.1" "$@"
}

# One request of each command is queued.
@test "git: a push of eight megabytes and a clone are queued and succeed" {
  requires root git_http
  local push_pid clone_pid
  cd "$BATS_TEST_TMPDIR"
  start_git_server
  git_here init -q -b main work
  head -c 8000000 /dev/urandom >work/big
  git_here -C work add big
  git_here -C work commit -q -m big
  hold_request one a
  in_background push git_here -C work push -q "$(url a /git/r.git)" main
  settles a waiting 1
  release_request one
  wait "$push_pid"
  hold_request two a
  in_background clone git_here clone -q -b main "$(url a /git/r.git)" copy
  settles a waiting 1
  release_request two
  wait "$clone_pid"
  cmp work/big copy/big
  at_least "$(status_of a requests)" 6
}

# ---- reverse proxies -------------------------------------------------------------------

start_haproxy() { # <send-proxy | send-proxy-v2 | ''>
  local port
  port=$(free_port front)
  printf '%s\n' 'defaults' 'mode http' 'timeout connect 20s' 'timeout client 40s' 'timeout server 40s' 'http-reuse safe' \
    'frontend f' "bind 127.0.0.1:$port" 'default_backend b' 'backend b' "server s 127.0.0.1:$(tls_port) $1" >"$BATS_TEST_TMPDIR/haproxy.cfg"
  in_background haproxy haproxy -db -f "$BATS_TEST_TMPDIR/haproxy.cfg"
  # shellcheck disable=SC2154
  helpers+=("$haproxy_pid")
  wait_until 10 has_opened "$port"
}
has_opened() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }  # <port>
end_haproxy() { kill "$haproxy_pid"; wait "$haproxy_pid" 2>/dev/null || :; }

by_front() { # <vhost> [curl argument]...
  curl -q -sS --noproxy '*' -m 30 -H "Host: $1.test" -o /dev/null -w '%{http_code}' "${@:2}" "http://127.0.0.1:$(free_port front)/page.html"
}

@test "HAProxy: requests are queued by their Host, behind PROXY headers of versions 1 and 2 and without" {
  requires worker haproxy mod_remoteip mod_ssl openssl
  local how mpm log="$HTTPD_ROOT/logs/from.log" two_pid
  for how in send-proxy send-proxy-v2 ''; do
    mpm=worker
    [[ $how != *v2 ]] || mpm=event
    start_tls -m $mpm -l remoteip 'LogFormat "%v %a" from' "CustomLog \"$log\" from" "${ONE_AT_A_TIME[@]}" \
      's: SSLEngine off' 't: SSLEngine off' 's: VhostLimitConcurrency 1' \
      ${how:+'s: RemoteIPProxyProtocol On'} ${how:+'t: RemoteIPProxyProtocol On'}
    start_haproxy "$how"
    is "$(by_front s --interface 127.0.0.9) $(by_front t)" '200 200' "$how"
    [[ -z $how ]] || wait_until 20 grep -q '^s.test 127.0.0.9' "$log"
    mkfifo -m 666 "$HTTPD_ROOT/hold/one.fifo"
    in_background one by_front s --url "http://127.0.0.1:$(free_port front)/cgi/hold.sh?one"
    wait_until 10 held one
    in_background two by_front s
    settles s waiting 1
    is "$(by_front t -m 8)" 200
    let_go "$HTTPD_ROOT/hold/one.fifo"
    wait "$two_pid"
    is "$(<"$BATS_TEST_TMPDIR/two")" 200 "$how"
    end_haproxy
    stop_httpd
  done
}

@test "mod_proxy_http and a balancer: requests are counted, and sleeping in a back end costs nothing" {
  requires mod_proxy_http mod_proxy_balancer
  local n
  start_httpd -l proxy -l proxy_http -l proxy_balancer -l slotmem_shm -l lbmethod_byrequests 'VhostLimit On' -v 'c VhostLimit Off' -v 'a ProxyPreserveHost Off' \
    -v "a ProxyPass /one http://c.test:$(httpd_port)/" -v 'a <Proxy "balancer://b">' -v "a BalancerMember http://127.0.0.1:$(httpd_port)" \
    -v "a BalancerMember http://127.0.0.2:$(httpd_port)" -v 'a </Proxy>' -v 'a ProxyPass /many balancer://b/' \
    -x "<VirtualHost 127.0.0.2:$(httpd_port)>" -x 'ServerName other.test' -x 'VhostLimit Off' -x "ScriptAlias /cgi/ \"$HTTPD_ROOT/cgi/\"" -x '</VirtualHost>' \
    -o 'c a b'
  counts_as 20 a web -o /dev/null -f "$(url a '/many/cgi/nap.sh?[1-20]')"
  n=$(status_of a charged_us)
  at_most "$n" 100000 "us charged for 0.2 s in service"
}

# ---- cheap responses
# ----------------------------------------------------------------------

@test "mod_cache: a response from the cache counts as a request and is queued as one" {
  requires mod_cache mod_cache_disk
  start_httpd -l cache -l cache_disk "${ONE_AT_A_TIME[@]}" -v 'a VhostLimitConcurrency 1' -v 'a CacheEnable disk /page.html' \
    -v "a CacheRoot \"$BATS_FILE_TMPDIR/cache\"" -v 'a CacheHeader on'
  touch -d '10 days ago' "$HTTPD_ROOT/htdocs/a/page.html"
  mkdir -p "$BATS_FILE_TMPDIR/cache" && chmod 777 "$BATS_FILE_TMPDIR/cache"
  counts_as 1 a get a /page.html
  wait_until 10 is_hit
  counts_as 1 a get a /page.html
  hold_request one a
  begin_request two a /page.html -D "$HTTPD_ROOT/hold/two.head"
  settles a waiting 1
  release_request one
  is "$(answer_of two)" 200
  like "$(<"$HTTPD_ROOT/hold/two.head")" 'X-Cache: HIT'
}
is_hit() { get a /page.html >/dev/null; [[ $(answer_head X-Cache) == HIT* ]]; }

@test "ranges and an ErrorDocument that is denied are served after queueing" {
  start_httpd "${ONE_AT_A_TIME[@]}" -v 'a VhostLimitConcurrency 1' -v 'a ErrorDocument 403 /closed/' \
    -v 'a <Location /closed/>' -v 'a Require all denied' -v 'a </Location>'
  hold_request one a
  begin_request range a /big.bin -r 100-199; settles a waiting 1
  begin_request ranges a /big.bin -r 0-9,1000-1099; settles a waiting 2
  begin_request loop a /closed/x; settles a waiting 3
  release_request one
  is "$(answer_of range) $(answer_of ranges) $(answer_of loop)" '206 206 403'
  is "$(wc -c <"$HTTPD_ROOT/hold/range.body")" 100
  settles a running 0
  is "$(status_of a requests)" 4
}

# ---- TLS sessions ------------------------------------------------------------------------

resumes() { # <-tls1_2 | -tls1_3>
  local session="$BATS_TEST_TMPDIR/session$1" two_pid
  s_client "$1" -sess_out "$session" >/dev/null
  hold_request one s
  in_background two s_client "$1" -sess_in "$session"
  settles s waiting 1
  release_request one
  wait "$two_pid"
  like "$(<"$BATS_TEST_TMPDIR/two")" 'Reused, TLS.*200 OK.*page of s' "$1"
  rm -f "$HTTPD_ROOT/hold"/*
}
s_client() { # <argument>...
  printf 'GET /page.html HTTP/1.1\r\nHost: s.test\r\nConnection: close\r\n\r\n' |
    timeout 20 openssl s_client -ign_eof -connect "127.0.0.1:$(tls_port)" -servername s.test "$@" 2>&1 | tr -d '\0'
}

@test "TLS connections that resume a session are queued as new ones" {
  requires mod_ssl openssl
  start_tls "${ONE_AT_A_TIME[@]}" 's: VhostLimitConcurrency 1'
  resumes -tls1_2
  resumes -tls1_3
}

@test "prefork: requests over TLS are queued with their process, the first and the next" {
  requires mod_ssl openssl prefork
  start_tls -m prefork "${ONE_AT_A_TIME[@]}" 's: VhostLimitConcurrency 1'
  hold_request one s
  begin_request two s /page.html -w '%{http_code} %{num_connects}\n' "$(url s /sub/)" -o /dev/null
  settles s waiting 1
  is "$(get t /page.html -m 8)" 200
  release_request one
  is "$(answer_of two | cut -d ' ' -f 1 | xargs)" '200 200'
  at_least "$(status_of s queued)" 1
}
