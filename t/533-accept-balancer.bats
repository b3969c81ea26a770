#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Connections that a balancer or a reverse proxy keeps: their requests are of many sites and clients,
# and each one waits in the queue of its own.

load lib/live
load lib/tls

setup() { requires event mod_ssl openssl; }

PAGE='GET /page.html HTTP/1.1\r\nHost: %s.test\r\n\r\n'
page_of() { echo "${PAGE/\%s/$1}"; }    # <vhost>

# One child of 16 threads and one slot, which c.test holds after hold_slot.
start_pool() { # <as start_tls>...
  start_tls "${ONE_CHILD[@]}" 'VhostLimit On' 'VhostLimitSlots 1' 'MaxKeepAliveRequests 0' 'KeepAliveTimeout 60' "$@"
}

# Connections that have had a response, and no part of their leases is left. On a loaded machine Apache
# closes some of them, while no thread of it is idle.
open_pool() { # <number> <vhost> <vhost of the second request>
  PAUSE=0.02 packets --kept "$1" "$BATS_TEST_TMPDIR/go" "$(page_of "$2")" "$(page_of "$3")" >"$BATS_TEST_TMPDIR/pool" 2>&1 3>&- 4>&- &
  pool_pid=$!
  wait_until 20 grep -q ' ' "$BATS_TEST_TMPDIR/pool"
  time_passes 100
}
go() { : >"$BATS_TEST_TMPDIR/go"; }
pool_got() { wait_until 20 gone "$pool_pid" && xargs <"$BATS_TEST_TMPDIR/pool"; }

@test "more requests than threads that name another site than the last one wait in their own site's queue" {
  start_pool
  open_pool 40 a b
  hold_request one c
  go
  wait_until 20 status_at_least b waiting 17
  is "$(status_of a waiting)" 0
  is "$(get status '/vhostlimit?json')" 200 "a page of a site that is Off, meanwhile"
  release_request one
  like "$(pool_got) $(status_of b refused)" '^40 200 (1[7-9]|[2-4][0-9]) 200( [0-9]+ none)? 0$'
}

@test "a request for a quiet site over a connection of a flooded one does not wait behind the flood" {
  local order=$HTTPD_ROOT/logs/order.log
  start_pool 'LogFormat "%v %{VHOSTLIMIT_WAIT_US}e" order' "CustomLog \"$order\" order"
  open_pool 1 b a
  hold_request one c
  begin_crowd flood 30 b /page.html
  settles b waiting 30
  : >"$order"
  go
  settles a waiting 1
  is "$(status_of b waiting)" 30
  release_request one
  is "$(pool_got) $(crowd_got flood)" '1 200 1 200 30 200'
  wait_until 5 grep -q '^a.test' "$order"
  at_most "$(grep -n '^a.test' "$order" | cut -d : -f 1)" 6 "place of the quiet site's request among 32 answers"
}

@test "a graceful restart answers requests that wait over kept connections" {
  start_pool
  open_pool 20 a b
  hold_request one c
  go
  wait_until 20 status_at_least b waiting 17
  graceful_httpd
  release_request one
  like "$(pool_got)" '^20 200 (1[7-9]|20) 200( [1-3] none)?$'
}

@test "a client that leaves while its request waits over a kept connection leaves the queue" {
  local pid
  start_pool
  packets "$(page_of a)" '@until:page of a' "@when:$BATS_TEST_TMPDIR/go" "$(page_of b)" "@when:$BATS_TEST_TMPDIR/leave" @reset >"$BATS_TEST_TMPDIR/left" 3>&- 4>&- &
  pid=$!
  settles a requests 1
  hold_request one c
  go
  settles b waiting 1
  : >"$BATS_TEST_TMPDIR/leave"
  wait "$pid"
  settles b waiting 0
  is "$(status_of b gone) $(status_of b refused)" '1 0'
}

# b.test has pages of 50 ms.
start_burning() {
  start_httpd -l lua "${ONE_CHILD[@]}" 'VhostLimit On' 'VhostLimitSlots 1' 'VhostLimitCgroup off' 'MaxKeepAliveRequests 0' \
    -v "b LuaMapHandler /burn $HTTPD_ROOT/lua/burn.lua" 'LogFormat "%v %{VHOSTLIMIT_WAIT_US}e k=%k" waits' "CustomLog \"$HTTPD_ROOT/logs/waits.log\" waits"
}

# The mean of VHOSTLIMIT_WAIT_US, ms.
mean_wait() { # <vhost> <0: of new connections, [1-9]: of kept ones, [0-9]: of all>
  awk -v name="$1.test" -v kept="$2" '$1 == name && ($3 ~ "^k=" kept) { n++; us += $2 } END { printf "%d\n", n ? us / n / 1000 : -1 }' "$HTTPD_ROOT/logs/waits.log"
}

# Eight new connections and a pool of 20 ask for b. After each of them the pool asks for a, as others
# do with new connections.
alternates() { # <HEAD of a> <HEAD of b>
  local got kept new
  start_burning
  got=$(perl "$TOP/t/lib/share.pl" "$(httpd_port)" 6s "20:$1|$2" "8:$2" "2:$1")
  kept=$(mean_wait a '[1-9]') new=$(mean_wait a 0)
  echo "# $got; mean wait of a, ms: $kept kept, $new new" >&3
  [[ $got != *x* ]] || fail "refused: $got"
  at_least "$(grep -c "^a.test .*k=[1-9]" "$HTTPD_ROOT/logs/waits.log")" 10 "requests of a over kept connections"
  at_least "$kept" 0 "ms that kept connections waited"
  at_most "$kept" $((3 * new + 100)) "ms that kept connections waited, beside $new of new ones"
}

@test "a pool that asks for a quiet and for a flooded site in turn waits for each as new connections do" {
  requires mod_lua
  alternates 'GET /page.html HTTP/1.1\r\nHost: a.test' 'GET /burn HTTP/1.1\r\nHost: b.test'
}

# nginx keeps 64 connections, and opens and closes others as it needs them.
start_nginx() {
  local dir=$BATS_TEST_TMPDIR
  printf '%s\n' 'user root;' 'worker_processes 1;' 'daemon off;' "pid $dir/nginx.pid;" 'events { worker_connections 500; }' 'http {' 'access_log off;' \
    "upstream apache { server 127.0.0.1:$(httpd_port); keepalive 64; keepalive_requests 100000; }" "server { listen 127.0.0.1:$(free_port front);" \
    "location / { proxy_pass http://apache; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host \$host; proxy_read_timeout 60s; } } }" >"$dir/nginx.conf"
  nginx -c "$dir/nginx.conf" -p "$dir" -e "$dir/nginx.log" >"$dir/nginx.out" 2>&1 3>&- 4>&- &
  helpers+=("$!")
  wait_until 10 has_opened "$(free_port front)"
}
has_opened() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }  # <port>

@test "nginx in front with kept connections: a flooded site refuses nothing and delays no other" {
  requires nginx mod_lua
  local got a b page='GET /page.html HTTP/1.1\r\nHost: a.test' burn='GET /burn HTTP/1.1\r\nHost: b.test'
  start_burning
  start_nginx
  perl "$TOP/t/lib/share.pl" "$(free_port front)" 1s "40:$page" >/dev/null     # fills the pool
  got=$(perl "$TOP/t/lib/share.pl" "$(free_port front)" 5s "2:$page" "40:$burn")
  a=$(mean_wait a '[0-9]') b=$(mean_wait b '[0-9]')
  echo "# $got; mean waits, ms: $a and $b" >&3
  [[ $got != *x* ]] || fail "refused: $got"
  at_least "$(cut -d ' ' -f 2 <<<"$got")" 10 "answers of the quiet site"
  at_most "$a" $((b / 3)) "ms that the quiet site's requests waited, beside $b of the flooded one's"
}

@test "a client behind a pool waits as itself, not as the client of the request before" {
  requires mod_remoteip
  local got visitor='GET /cgi/echo.sh/x HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.%d' flood
  flood='GET /page.html HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 203.0.113.%d|GET /cgi/echo.sh/x HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 198.51.100.1'
  start_httpd -l remoteip "${ONE_CHILD[@]}" 'VhostLimit On' 'VhostLimitSlots 1' 'MaxKeepAliveRequests 0' 'RemoteIPHeader X-Forwarded-For' \
    'RemoteIPInternalProxy 127.0.0.0/8'
  got=$(perl "$TOP/t/lib/share.pl" "$(httpd_port)" 1500 "20:$flood" "20:$visitor")
  echo "# $got" >&3
  [[ $got != *x* ]] || fail "refused: $got"
  at_most "${got%% *}" 33 "% of the answers for the client of 20 connections, half of them as another"
}

@test "a head that arrives in parts over a connection of another site holds no thread while it waits for a slot" {
  local pids=() i
  start_pool
  open_pool 1 a a
  hold_request one c
  for i in {1..20}; do
    packets "$(page_of a)" @200 'GET /page.html HT' "@when:$BATS_TEST_TMPDIR/go" 'TP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n' >"$BATS_TEST_TMPDIR/part$i" 3>&- 4>&- &
    pids+=($!)
  done
  settles a waiting 20
  release_request one
  go
  wait "${pids[@]}" "$pool_pid"
  for i in {1..20}; do is "$(grep -aoE '^HTTP/1.1 [0-9]*|page of .' "$BATS_TEST_TMPDIR/part$i" | xargs)" 'HTTP/1.1 200 page of a HTTP/1.1 200 page of b'; done
}
