#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A site is one account: its limits hold for the requests of all its virtual hosts together,
# over HTTP and HTTPS. Here s.test is on both ports.

load lib/live
load lib/tls
load lib/control

setup() { requires openssl mod_ssl; }

# Lines that begin with "s: " are for the virtual host for HTTPS, -v 's LINE' for HTTP.
start_both() { start_tls -o 'a b c s' 'VhostLimit On' 'VhostLimitQueue 0' "$@"; }  # <as start_tls>...

by_http()  { get a / -H 'Host: s.test'; }
by_https() { get s /; }
sites()    { status_json | jq -r '[.vhosts[].name] | sort | join(" ")'; }

# Replaces a line of the configuration and restarts gracefully.
reload_with() { # <sed command>
  sed -i "$1" "$HTTPD_ROOT/httpd.conf"
  graceful_httpd
}

@test "HTTP and HTTPS of a site are one account" {
  start_both
  is "$(sites)" 'a.test b.test c.test main.test s.test t.test'
  counts_as 2 s eval 'by_http >/dev/null; by_https >/dev/null'
}

@test "a limit in the virtual host for HTTPS applies to the whole site" {
  start_both 's: VhostLimitConcurrency 1'
  hold_request one s
  is "$(by_http) $(by_https) $(get b /)" '503 503 200'
  release_request one
  settles s running 0
  is "$(by_http)" 200
}

@test "a limit in the virtual host for HTTP applies to the whole site, and limits of both add up" {
  start_both -v 's VhostLimitConcurrency 1' 's: VhostLimitStatusCode 429'
  hold_request one s
  is "$(by_http) $(by_https)" '429 429'
}

@test "VhostLimit On in one virtual host of a site applies to the whole site" {
  start_tls -o 'a b c s' 's: VhostLimit On'
  is "$(sites)" s.test
  counts_as 1 s by_http
}

@test "requests of a virtual host with VhostLimit Off are not limited" {
  start_both -v 's VhostLimit Off' 's: VhostLimitConcurrency 1'
  hold_request one s
  is "$(by_http) $(by_https)" '200 503'
}

@test "a group has the virtual hosts of all its sites" {
  start_both 's: VhostLimitGroup one' -v 'b VhostLimitGroup one' -v 'b VhostLimitConcurrency 1'
  is "$(sites)" '@one a.test c.test main.test t.test'
  hold_request one b
  is "$(by_http) $(by_https) $(get c /)" '503 503 200'
}

@test "the main server belongs to the site of its ServerName" {
  start_tls -o 'a b c main' 'VhostLimit On' -v 'main VhostLimitWeight 300'
  is "$(status_json | jq -c '[.vhosts[] | select(.name == "main.test") | .weight]')" '[300]'
}

@test "virtual hosts without ServerName are sites named by their addresses" {
  local port
  port=$(free_port other)
  start_tls 'VhostLimit On' "Listen 127.0.0.1:$port" "Listen 127.0.0.2:$port" -x "<VirtualHost *:$port>" -x '</VirtualHost>' \
    -x "<VirtualHost 127.0.0.2:$port>" -x '</VirtualHost>'
  is "$(sites)" "*:$port 127.0.0.2:$port a.test b.test c.test main.test s.test t.test"
}

@test "a command finds a site by its name, also if httpd uses the name for another virtual host" {
  local port
  port=$(free_port other)
  start_tls 'VhostLimit On' "Listen 127.0.0.1:$port" -x "<VirtualHost *:$port>" -x '</VirtualHost>'
  is "$(ask 'status\tmain.test\n' | jq -r '.vhosts[].name')" main.test
  is "$(ask "status\t*:$port\n" | jq -r '.vhosts[].name')" "*:$port"
}

@test "vhostlimitctl show lists the virtual hosts of a site, with addresses and places in the configuration" {
  local places
  start_both
  places=$(grep -n '<VirtualHost' "$HTTPD_ROOT/httpd.conf" | cut -d : -f 1 | xargs)
  is "$(ask 'status\ts.test\n' | jq -r '.vhosts[0].virtual_hosts | map(.name) | join(" ")')" 's.test s.test'
  is "$(ask 'status\ts.test\n' | jq -r '.vhosts[0].virtual_hosts[].addresses' | xargs)" "127.0.0.1:$(httpd_port) 127.0.0.1:$(tls_port)"
  ask 'status\ts.test\n' | jq -r '.vhosts[0].virtual_hosts[].place' >"$BATS_TEST_TMPDIR/places"
  is "$(sort -u "$BATS_TEST_TMPDIR/places" | wc -l)" 2
  local place
  while read -r place; do
    [[ " $places " == *" ${place##*:} "* ]] || fail "$place is no <VirtualHost> of $places"
  done <"$BATS_TEST_TMPDIR/places"
  like "$(ctl show s.test)" "virtual_hosts: .*127\.0\.0\.1:$(tls_port).*httpd\.conf:[0-9]+"
}

@test "a ServerName that collides with a group's name or cgroup gets a unique name" {
  start_tls -v 'a VhostLimitGroup one' 'VhostLimit On' \
    -x "<VirtualHost 127.0.0.2:$(httpd_port)>" -x 'ServerName @one' -x '</VirtualHost>' \
    -x "<VirtualHost 127.0.0.2:$(httpd_port)>" -x 'ServerName _one' -x '</VirtualHost>'
  is "$(sites)" '@one @one#2 _one#3 b.test c.test main.test s.test t.test'
}

@test "a change at run time applies to the whole site, named in any case" {
  start_both
  is "$(ask 'set\tS.Test\tconcurrency=1\n' | jq -r '.vhosts[0].name')" s.test
  hold_request one s
  is "$(by_http) $(by_https)" '503 503'
}

@test "HTTP and HTTPS of a site share one cgroup" {
  requires cgroups
  start_both 's: VhostLimitProcesses 30' -v 's VhostLimitWeight 200'
  is "$(status_of s cgroup)" "$(httpd_cgroup)/s.test"
  is "$(cgroup_value "$(httpd_cgroup)/s.test" pids.max)" 30
  like "$(cgroup_value "$(httpd_cgroup)/s.test" cpu.shares cpu.weight)" '^(2048|200)$'
  is "$(cgroup_dirs "$(httpd_cgroup)" | grep -c '/s\.test$')" "$(cgroup_dirs "$(httpd_cgroup)" | grep -c '/a\.test$')"
}

@test "a graceful restart splits a site with a running request and joins it again" {
  start_both 's: VhostLimitConcurrency 1'
  hold_request one s
  reload_with "s/ServerName s\.test:$(httpd_port)/ServerName p.test/"
  is "$(sites)" 'a.test b.test c.test main.test p.test s.test t.test'
  is "$(get a / -H 'Host: p.test') $(by_https)" '200 503'
  is "$(status_of s running) $(status_of p requests)" '1 1'
  reload_with "s/ServerName p\.test/ServerName s.test/"
  is "$(sites)" 'a.test b.test c.test main.test s.test t.test'
  is "$(by_http) $(status_of s running)" '503 1'
  release_request one
  is "$(answer_of one)" 200
  settles s running 0
  is "$(by_http) $(status_of s requests)" '200 2'
}

@test "a graceful restart joins sites to a group, and their counts return after leaving it" {
  start_both -v 'b VhostLimitWeight 100'
  is "$(by_https) $(get b /)" '200 200'
  settles b running 0
  reload_with 's/^VhostLimitWeight 100$/&\nVhostLimitGroup two/'
  is "$(sites)" '@two a.test c.test main.test s.test t.test'
  reload_with '/^VhostLimitGroup two$/d'
  is "$(sites)" 'a.test b.test c.test main.test s.test t.test'
  is "$(status_of b requests) $(status_of s requests)" '1 1'
}
