#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# VhostLimitAccounts Host: each host name that clients use at a virtual host is an account.
# Here a.test has all names that end in .shop.test.

load lib/live
load lib/tls
load lib/control
load lib/cgroup
load lib/history

by_host=(-v 'a ServerAlias *.shop.test' -v 'a VhostLimitAccounts Host')

# One child process, so that the order of the queue is exact.
start_shops() { # <as start_httpd>...
  start_httpd -m event -t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadLimit 32' -t 'ThreadsPerChild 32' \
    -t 'MaxRequestWorkers 32' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 32' 'VhostLimit On' "${by_host[@]}" "$@"
}

hosts()      { status_json | jq -r '[.vhosts[] | select(.host_of) | .name] | sort | join(" ")'; }
host_value() { status_json | jq -r ".vhosts[] | select(.host_of and .name == \"$1.shop.test\").$2"; }  # <host> <key>
host_is()    { [[ $(host_value "$1" "$2") == "$3" ]]; }     # <host> <key> <value>
number_of()  { status_json | jq ".hosts.$1"; }              # limit, named, shown or beyond
end_of()     { wait_until 20 host_is "$1" running 0; }       # <host>

@test "each host name has an account of its own, whatever its case, port and final dot" {
  start_shops
  get one.shop /
  get two.shop /
  get two.shop / -H 'Host: TWO.shop.test.:99'
  end_of two
  is "$(hosts)" 'one.shop.test two.shop.test'
  is "$(host_value one requests) $(host_value two requests) $(status_of a requests)" '1 2 0'
  is "$(host_value one host_of)" a.test
  is "$(number_of named) $(number_of limit) $(number_of beyond)" '2 65536 0'
}

@test "the ServerName, requests without a name, and addresses belong to the virtual host's own account" {
  start_shops
  counts_as 1 a get a /
  is "$(printf 'GET / HTTP/1.0\r\n\r\n' | raw | sed -n '1s/\r//p')" 'HTTP/1.1 200 OK'
  is "$(printf 'GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' | raw | sed -n '1s/\r//p')" 'HTTP/1.1 200 OK'
  is "$(hosts)" 127.0.0.1
  is "$(status_of a requests)" 2
}

@test "a limit of the virtual host is a limit of each host" {
  start_shops 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  hold_request held one.shop
  is "$(get one.shop /) $(get two.shop /) $(get a /)" '503 200 200'
  is "$(host_value one refused) $(host_value one running) $(host_value one concurrency)" '1 1 1'
  release_request held
  end_of one
  is "$(get one.shop /)" 200
}

@test "hosts share the server: one request of a host does not wait for the many of another" {
  start_shops 'VhostLimitSlots 1'
  get one.shop / && get two.shop / && end_of two
  hold_request held c
  local name
  for name in n1 n2 n3 n4; do
    begin_request "$name" one.shop "/cgi/hold.sh?$name"
    wait_until 20 host_is one waiting "${name#n}"
  done
  begin_request v1 two.shop '/cgi/hold.sh?v1'
  wait_until 20 host_is two waiting 1
  release_request held
  is "$(answer_of n4) $(answer_of v1)" '200 200'
  like "$(begun '[nv][0-9]')" '^(v1 n1|n1 v1) n2 n3 n4$'
}

@test "names beyond max= belong to the virtual host's own account, and a busy host keeps its account" {
  start_httpd 'VhostLimit On' -v 'a ServerAlias *.shop.test' -v 'a VhostLimitAccounts Host max=2'
  hold_request held one.shop
  get two.shop /
  local i
  for i in {1..20}; do get "random$i.shop" / >/dev/null; done
  is "$(hosts)" 'one.shop.test two.shop.test'
  is "$(host_value one running) $(status_of a requests)" '1 20'
  is "$(number_of named) $(number_of limit)" '2 2'
  at_least "$(number_of beyond)" 20 "lookups of names without account"
  release_request held
}

@test "while requests wait, names that come once wait in one account, and delay no other site" {
  start_shops 'VhostLimitSlots 1'
  get two.shop / && end_of two
  hold_request held c
  line_up b '/cgi/hold.sh?b1'
  local i
  for i in {1..8}; do
    begin_request "r$i" "random$i.shop" "/cgi/hold.sh?r$i"
    wait_until 20 has_waiting a "$i"
  done
  line_up c '/cgi/hold.sh?c1'
  begin_request t1 two.shop '/cgi/hold.sh?t1'
  wait_until 20 host_is two waiting 1
  is "$(hosts)" two.shop.test
  release_request held
  is "$(answer_of r8)" 200
  # The others do not wait for the random names; c has used more CPU time before.
  like " $(begun '[brct][0-9]' | cut -d ' ' -f 1-5) " ' b1 '
  like " $(begun '[brct][0-9]' | cut -d ' ' -f 1-5) " ' t1 '
}

@test "over TLS the name is that of SNI, and the same account as without TLS" {
  requires openssl mod_ssl
  start_tls -o 'b c s a' 'VhostLimit On' 's: ServerAlias *.shop.test' 's: VhostLimitAccounts Host' -v 's ServerAlias *.shop.test'
  is "$(web -o /dev/null -w '%{http_code}' "https://one.shop.test:$(tls_port)/")" 200
  is "$(get one.shop /)" 200
  end_of one
  is "$(hosts) $(host_value one requests) $(host_value one host_of)" 'one.shop.test 2 s.test'
}

@test "over HTTP/2 the name is that of :authority" {
  requires mod_http2 curl_http2
  start_httpd -l http2 'Protocols h2c http/1.1' 'VhostLimit On' "${by_host[@]}"
  is "$(get one.shop / --http2-prior-knowledge) $(get two.shop / --http2-prior-knowledge)" '200 200'
  end_of two
  is "$(hosts) $(host_value one requests)" 'one.shop.test two.shop.test 1'
}

@test "requests on one connection belong to the host that each of them names" {
  start_shops
  local name
  for name in one two one two two; do
    printf 'GET / HTTP/1.1\r\nHost: %s.shop.test\r\n\r\n' "$name"
  done >"$BATS_TEST_TMPDIR/requests"
  printf 'GET / HTTP/1.1\r\nHost: one.shop.test\r\nConnection: close\r\n\r\n' >>"$BATS_TEST_TMPDIR/requests"
  is "$(raw <"$BATS_TEST_TMPDIR/requests" | grep -c '^HTTP/1.1 200')" 6
  end_of one
  end_of two
  is "$(host_value one requests) $(host_value two requests)" '3 3'
}

@test "with prefork and worker hosts have accounts too" {
  local mpm
  for mpm in prefork worker; do
    start_httpd -m "$mpm" 'VhostLimit On' 'VhostLimitQueue 0' "${by_host[@]}" -v 'a VhostLimitConcurrency 1'
    hold_request "held$mpm" one.shop
    is "$(get one.shop /) $(get two.shop /)" '503 200' "$mpm"
    release_request "held$mpm"
    end_of one
    stop_httpd
  done
}

@test "vhostlimitctl changes the limits of all hosts of a site, shows a host, and does not change one alone" {
  start_shops 'VhostLimitQueue 0'
  get one.shop / && end_of one
  ctl set a.test concurrency=1 >/dev/null
  is "$(host_value one concurrency)" 1
  hold_request held two.shop
  is "$(get two.shop /) $(get one.shop /)" '503 200'
  release_request held
  is "$(ask 'status\tone.shop.test\n' | jq -r '.vhosts[] | .name + " of " + .host_of')" 'one.shop.test of a.test'
  is "$(ask 'status\ta.test\n' | jq -r '[.vhosts[].name] | join(" ")')" a.test
  like "$(ask 'set\tone.shop.test\tconcurrency=2\n')" "'one.shop.test' is a host of site a.test"
  is "$(ask 'clients\tone.shop.test\n' | jq -r .site)" one.shop.test
}

@test "watch and history say that they have no host names, only sites" {
  start_shops
  get one.shop / && end_of one
  try ctl watch --site one.shop.test
  is "$status" 1
  like "$output" "'one\.shop\.test' is a host of site a\.test"
  begin_collector
  end_collector
  try ctl history one.shop.test --file "$(history_path)"
  is "$status" 1
  like "$output" "'one\.shop\.test' is a host of site a\.test .*no figures of hosts.*\?prometheus.*show one\.shop\.test"
  like "$(web "$(url status '/vhostlimit?prometheus')")" 'vhostlimit_requests_total\{vhost="one\.shop\.test",site="a\.test"'
  try ctl history a.test --file "$(history_path)"
  is "$status" 0
}

@test "names keep their accounts over graceful restarts, and their running requests; a larger max= starts again" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1' -v 'a ServerAlias *.shop.test' \
    -v 'a VhostLimitAccounts Host max=10'
  hold_request held one.shop
  sed -i 's/VhostLimitConcurrency 1/VhostLimitConcurrency 2/' "$HTTPD_ROOT/httpd.conf"
  graceful_httpd
  is "$(host_value one running) $(host_value one concurrency)" '1 2'
  is "$(get one.shop /) $(host_value one requests)" '200 2'
  release_request held
  end_of one
  sed -i 's/max=10/max=20/' "$HTTPD_ROOT/httpd.conf"
  graceful_httpd
  is "$(hosts) $(get one.shop /) $(number_of limit)" ' 200 20'
}

@test "a child process that is killed leaves nothing of a host's requests" {
  start_httpd 'VhostLimit On' "${by_host[@]}"
  hold_request held one.shop
  is "$(host_value one running)" 1
  kill -9 "$(holder_of held)"
  end_of one
  release_all
  is "$(get one.shop /)" 200
}

@test "a status page for one host shows no other host" {
  start_shops -v 'a <Location /mine>' -v 'a SetHandler vhostlimit-status' -v 'a </Location>'
  get one.shop /
  get two.shop '/mine?me&json'
  is "$(answer_body | jq -r '[.vhosts[].name] | join(" ")')" two.shop.test
}

@test "?json and ?prometheus show hosts, and how many there are" {
  start_shops
  get one.shop / && end_of one
  web "$(url status '/vhostlimit?prometheus')" >"$BATS_TEST_TMPDIR/prometheus"
  grep -q '^vhostlimit_requests_total{vhost="one.shop.test",site="a.test"} 1$' "$BATS_TEST_TMPDIR/prometheus"
  grep -q '^vhostlimit_hosts 1$' "$BATS_TEST_TMPDIR/prometheus"
}

@test "a page shows the 200 busiest hosts, and says of how many" {
  start_shops
  hosts_loop 250
  is "$(number_of named) $(number_of shown) $(hosts | wc -w)" '250 200 200'
}


hosts_loop() { # <number>
  local i
  for ((i = 1; i <= $1; i++)); do
    printf 'GET / HTTP/1.1\r\nHost: n%d.shop.test\r\n\r\n' "$i"
  done | raw >/dev/null
}

@test "hosts share the cgroup of their virtual host" {
  requires cgroups
  start_shops
  get one.shop / && end_of one
  is "$(host_value one cgroup)" "$(httpd_cgroup)/a.test"
  is "$(cgroup_dirs "$(httpd_cgroup)" | grep -c shop || :)" 0
}

@test "mistakes are named" {
  refuse_lines <<'END'
VhostLimitAccounts Name|VhostLimitAccounts: 'Name' is not one of Vhost, Host
VhostLimitAccounts Host max=0|VhostLimitAccounts: 'max=0' is not max= and a whole number from 1 to 1000000
VhostLimitAccounts Host 100|VhostLimitAccounts: '100' is not max= and a whole number
VhostLimitAccounts Vhost max=5|VhostLimitAccounts: max= belongs to Host
END
}

@test "it stops the start together with VhostLimitGroup, and with two values of max=" {
  check_config 'VhostLimit On' 'VhostLimitAccounts Host' -v 'a VhostLimitGroup one'
  is "$status" 1
  like "$output" 'Host gives each host name an account, and VhostLimitGroup gives all of @one one'
  check_config 'VhostLimit On' 'VhostLimitAccounts Host' -v 'a VhostLimitGroup one' -v 'a VhostLimitAccounts Vhost'
  is "$status" 0 "$output"
  check_config 'VhostLimit On' -v 'a VhostLimitAccounts Host max=5' -v 'b VhostLimitAccounts Host max=6'
  is "$status" 1
  like "$output" 'max= is one number for the whole server, but it is 5 for site a.test and 6 for site b.test'
}
