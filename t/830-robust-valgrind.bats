#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# memcheck over a few hundred requests in one process. Apache and APR have records of their
# own; only those with a frame of the module count.

load lib/live

under_valgrind() { # <mpm>   starts the configured server under memcheck
  local log=$BATS_TEST_TMPDIR/memcheck
  (detached valgrind --leak-check=full --show-leak-kinds=definite --keep-debuginfo=yes \
    --num-callers=30 --log-file="$log" "$(httpd_program)" -X -f "$HTTPD_ROOT/httpd.conf") \
    >"$BATS_TEST_TMPDIR/out" 2>&1 &
  valgrind_pid=$!
  wait_until 60 port_answers
}

port_answers() { (: <"/dev/tcp/127.0.0.1/$(httpd_port)") 2>/dev/null; }

# Prints memcheck's records that name the module or one of its functions.
records_of_module() { # <log>
  sed 's/^==[0-9]*== \{0,1\}//' "$1" |
    awk -v RS= '/(by|at) 0x/ && /mod_vhostlimit|[ (]vl_[a-z]/'
}

some_hundred_requests() { # [vhost for programs]
  web -o /dev/null "$(url a '/page.html?[1-150]')"
  pipeline a 60 / /nope
  web -o /dev/null -I "$(url b '/page.html?[1-20]')"
  web -o /dev/null -d body "$(url "${1:-c}" '/cgi/echo.sh?[1-5]')"
  get a /cgi/redirect.sh
  abort_request a /big.bin
  web -o /dev/null "$(url status '/vhostlimit?[1-10]')" "$(url status '/vhostlimit?json')"
}

# A request is queued for the only slot of c, so connections return to the acceptor after
# each response. Some of them close, are idle or are queued when the server ends.
some_hundred_requests_while_one_waits() {
  local page='GET /page.html HTTP/1.1\r\nHost: a.test\r\n\r\n' last='GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'
  hold_request busy c
  begin_request waits c /page.html
  settles c waiting 1
  some_hundred_requests b
  packets "$page" '@until:page of a' @100 "$page$last"
  packets "$page" '@until:page of a' "${page:0:9}" @50 @reset
  packets "$page" @reset
  packets "${page/GET/POST}" @send:3000000
  exec_packets "$page" '@until:page of a' @60000 3>&- 4>&- &
  client_pids=($!)
  exec_packets "$last" '@until:index of a' @60000 3>&- 4>&- &
  client_pids+=($!)
  settles a waiting 0
  is "$(status_of c waiting)" 1 "the one that waits still does"
}

clean_on() { # <mpm> [what is to happen]
  rm -rf "$HTTPD_ROOT"; mkdir -p "$HTTPD_ROOT"
  configure_httpd -m "$1" 'VhostLimit On' -v 'a ErrorDocument 404 /page.html' \
    -v 'b VhostLimit DryRun' -v 'b VhostLimitConcurrency 1' -v 'c VhostLimitConcurrency 1' \
    'VhostLimitQueue 100 60s' 'Timeout 60'
  local valgrind_pid client_pids=()
  under_valgrind
  "${2:-some_hundred_requests}" >/dev/null
  kill -TERM "$valgrind_pid"
  release_all
  wait_until 30 gone "$valgrind_pid"
  ((${#client_pids[@]} == 0)) || kill "${client_pids[@]}" || :
  wait_until 20 cgroup_remove "$(httpd_cgroup)"       # if the server has ended without removing them
  like "$(<"$BATS_TEST_TMPDIR/memcheck")" 'ERROR SUMMARY' "memcheck came to its end"
  is "$(records_of_module "$BATS_TEST_TMPDIR/memcheck")" '' "memcheck's records about the module"
}

@test "event: memcheck finds no error and no leak of the module" {
  requires valgrind event
  clean_on event
}

@test "event: memcheck finds no error and no leak while connections return to the acceptor" {
  requires valgrind event
  clean_on event some_hundred_requests_while_one_waits
}

@test "prefork: memcheck finds no error and no leak of the module" {
  requires valgrind prefork
  clean_on prefork
}

@test "the search for the module's records finds a record" {
  printf '==1== 8 bytes in 1 blocks are definitely lost\n==1==    at 0x1: malloc\n==1==    by 0x2: vl_shm_req_enter (vl_shm.c:1)\n==1== \n' >"$BATS_TEST_TMPDIR/log"
  like "$(records_of_module "$BATS_TEST_TMPDIR/log")" 'definitely lost'
}
