#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# vhostlimit-fleet: servers that share a site's part of all of them, through a real store.
# shellcheck disable=SC2030,SC2031,SC2154  # variables of lib/fleet.bash; each test is a shell of its own

load lib/live
load lib/control
load lib/fleet

WEBS=(web1 web2 web3)

setup() {
  requires root ctl fleet redis mod_lua
  store_pid=''
}

teardown() {
  local web
  end_loads
  for web in "${!daemon_pids[@]}"; do kill_daemon "$web" TERM; done
  [[ -z $store_pid ]] || kill_store
  for web in "${WEBS[@]}"; do [[ ! -e $(daemon_folder "$web")/httpd ]] || end_web "$web"; done
}

# The servers of WEBS with the sites a and b. /work uses some CPU time. With a quota a load leaves
# CPU time to other test files.
start_webs() { # <quota in percent of a CPU, or ''> [line]...
  local web
  for web in "${WEBS[@]}"; do
    start_web "$web" "$1" 'VhostLimit On' -l lua -o 'a b' -x 'LuaScope thread' \
      -v "a LuaMapHandler /work $TOP/t/lua/work.lua" -v "b LuaMapHandler /work $TOP/t/lua/work.lua" "${@:2}"
  done
}

# Starts the store and all daemons, and waits until they lease.
start_fleet() { # [line of the daemons' configuration]...
  local web
  start_store
  for web in "${WEBS[@]}"; do start_daemon "$web" "$@"; done
  for web in "${WEBS[@]}"; do wait_until 15 is_leasing "$web" && wait_until 10 knows_servers "$web" "${#WEBS[@]}"; done
}

weight_below() { local n; n=$(web_site "$1" "$2" fleet_weight_milli) && ((n > 0 && n < $3)); }  # <web> <site> <thousandths>

# The pages are so dear that the clients keep up on a loaded machine: a site without queued requests
# leaves CPU time to the other one.
@test "a site that has two other servers yields the third one to a site that has no other" {
  local before_a before_b a b
  start_webs 30
  start_fleet
  begin_load web1 a 30 60 "/work?8"
  begin_load web2 a 30 60 "/work?8"
  begin_load web3 a 60 60 "/work?8"
  begin_load web3 b 60 60 "/work?8"
  wait_until 20 weight_below web3 a 10000
  before_a=$(web_site web3 a charged_us) before_b=$(web_site web3 b charged_us)
  time_passes 3000
  a=$(($(web_site web3 a charged_us) - before_a)) b=$(($(web_site web3 b charged_us) - before_b))
  at_least "$b" $((a * 2)) "us of b on the third server, beside $a us of a, whose configured weight is the same"
  is "$(web_site web1 b fleet_weight_milli)" 0 "leases of a site that is not active"
  is "$(web_site web3 a weight) $(web_site web3 a overridden)" '100 {}' "weight of the configuration"
  ctl_says web3 'fleet main, server web3'
}
ctl_says() { like "$("$CTL" -s "$(daemon_folder "$1")/fleet.sock" fleet)" "$2"; }  # <web> <text>

@test "the store dies under load: no request fails, and the configured weights hold within seconds" {
  WEBS=(web1)
  start_webs 30
  start_fleet
  begin_load web1 a 10 60 /work
  wait_until 10 web_is web1 fleet held
  kill_store
  wait_until 10 web_is web1 fleet lapsed
  is "$(web_site web1 a fleet_weight_milli)" 0 "leases left"
  LOG_MAY_SAY=. like "$(on_web web1 error_log)" 'VL0064'
  like "$(daemon_log web1)" 'Connection refused'
  start_store
  wait_until 15 web_is web1 fleet held
  is "$(web_key web1 fleet_lapsed)" 1 "times that the leases lapsed"
  end_loads
  like "$(cat "$BATS_FILE_TMPDIR/load-web1-a")" 'Failed requests: +0'
}

@test "a store that loses its contents changes no lease; a killed daemon leaves its server its configuration, and the others ignore it" {
  start_webs ''
  start_fleet
  for _ in {1..5}; do
    store flushall >"$BATS_TEST_TMPDIR/flushed"
    is "$(fleet_of web1 '.servers | length')" 3 "servers"
  done
  is "$(web_key web1 fleet_lapsed)" 0 "times that the leases lapsed"
  kill_daemon web2
  wait_until 10 web_is web2 fleet lapsed
  wait_until 10 knows_servers web1 2
  is "$(web_key web1 fleet)" held
  unset 'daemon_pids[web2]'
}

@test "a server that is cut off from the store uses its configuration, and the other servers go on" {
  start_webs ''
  start_store
  printf 'secret\n' >"$BATS_TEST_TMPDIR/password"
  store acl setuser apart on '>secret' '~vhostlimit:*' +getrange +set +sadd +srem +smembers +mget >"$BATS_TEST_TMPDIR/acl"
  start_daemon web1
  start_daemon web2 'user apart' "password-file $BATS_TEST_TMPDIR/password"
  start_daemon web3
  wait_until 15 is_leasing web2
  wait_until 15 knows_servers web1 3
  store acl setuser apart off >"$BATS_TEST_TMPDIR/acl"
  store client kill user apart >"$BATS_TEST_TMPDIR/killed"
  wait_until 10 web_is web2 fleet lapsed
  wait_until 10 knows_servers web1 2
  is "$(web_key web1 fleet) $(web_key web3 fleet) $(web_key web1 fleet_lapsed)" 'held held 0'
  store acl setuser apart on >"$BATS_TEST_TMPDIR/acl"
  wait_until 15 web_is web2 fleet held
  wait_until 10 knows_servers web1 3
}

@test "a store that stalls for seconds ends the leases, and they are made again when it answers" {
  WEBS=(web1)
  start_webs 30
  start_fleet
  begin_load web1 a 10 60 /work
  wait_until 10 web_is web1 fleet held
  suspend "$store_pid"
  wait_until 10 web_is web1 fleet lapsed
  kill -CONT "$store_pid"
  wait_until 15 web_is web1 fleet held
  end_loads
  like "$(cat "$BATS_FILE_TMPDIR/load-web1-a")" 'Failed requests: +0'
}

@test "a hostile report is rejected or bounded" {
  local key='vhostlimit:{main}:report:evil'
  start_webs 30
  start_fleet
  store sadd 'vhostlimit:{main}:servers' evil $'bad\nname' >"$BATS_TEST_TMPDIR/added"
  store set "$key" $'vhostlimit-fleet 1 evil 1 1 1000000 1\na.test\t-5\t0\t0\t0\n' >"$BATS_TEST_TMPDIR/set"
  wait_until 10 has_rejected web1
  like "$(fleet_of web1 .rejected_why)" 'evil: a weight is not valid'
  knows_servers web1 3
  begin_load web1 a 10 60 /work
  store set "$key" $'vhostlimit-fleet 1 evil 1 2 1000000 1\na.test\t10000\t10000000000\t10000000000\t1\n' >"$BATS_TEST_TMPDIR/set"
  wait_until 10 knows_servers web1 4
  at_most "$(web_site web1 a fleet_weight_milli)" 100000 "leased weight, in thousandths"
  is "$(web_key web1 fleet)" held
}
has_rejected() { (($(fleet_of "$1" .rejected) > 0)); }  # <web>

@test "two fleets that share a store do not affect each other" {
  start_webs ''
  start_store
  start_daemon web1
  start_daemon web2
  start_daemon web3 'fleet other'
  wait_until 15 is_leasing web1
  wait_until 15 is_leasing web3
  wait_until 10 knows_servers web1 2
  is "$(fleet_of web3 '.servers | length')" 1 "servers of the other fleet"
}

@test "a limit of CPU time over all servers is leased in parts" {
  local web before=0 after=0
  start_webs ''
  start_fleet 'limit a.test cpu=45% concurrency=30'
  for web in "${WEBS[@]}"; do begin_load "$web" a 20 60 /work; done
  for web in "${WEBS[@]}"; do wait_until 20 site_is "$web" a fleet_cpu_permille 150; done
  for web in "${WEBS[@]}"; do before=$((before + $(web_site "$web" a charged_us))); done
  before_ms=${EPOCHREALTIME/./}
  time_passes 3000
  for web in "${WEBS[@]}"; do after=$((after + $(web_site "$web" a charged_us))); done
  passed=$((${EPOCHREALTIME/./} - before_ms))
  echo "# $(((after - before) * 1000 / passed)) permille of a processor used, limit 450" >&3
  at_most $(((after - before) * 1000 / passed)) 600 "permille of a processor"
}

parts_sum() { # <most>: is the sum of the leased parts above 0 and at most that?
  local web sum=0 part
  for web in "${WEBS[@]}"; do
    part=$(web_site "$web" a fleet_concurrency)
    ((part > 0)) || return 1
    sum=$((sum + part))
  done
  ((sum <= $1))
}

@test "a limit of running requests over all servers is leased in parts that follow the requests" {
  local running
  start_webs 30
  start_fleet 'limit a.test concurrency=6'
  wait_until 15 parts_sum 6
  begin_load web1 a 20 60 /work
  wait_until 15 site_is web1 a fleet_concurrency 4
  wait_until 20 site_is web2 a fleet_concurrency 1
  wait_until 20 site_is web3 a fleet_concurrency 1
  for _ in {1..20}; do
    running=$(web_site web1 a running)
    at_most "$running" 4 "running requests of the site on the first server"
  done
  like "$(on_web web1 ctl explain a.test)" "part of the fleet's concurrency limit is reached: 4 of 4"
  end_loads
  begin_load web3 a 20 60 /work
  wait_until 20 site_is web3 a fleet_concurrency 4
  wait_until 20 parts_sum 6
}

@test "a name that two servers have is an error, and no lease is renewed" {
  WEBS=(web1 web2)
  start_webs ''
  start_store
  start_daemon web1 'server same'
  start_daemon web2 'server same'
  wait_until 15 says_doubled web1
  wait_until 15 says_doubled web2
  wait_until 10 is_not_held web1
}
is_not_held() { [[ $(web_key "$1" fleet) != held ]]; }  # <web>
says_doubled() { grep -q 'another server of the fleet main has the name same' "$(daemon_folder "$1")/fleet.log"; }  # <web>

@test "the daemon uses a password, a user of the ACL and a unix socket" {
  WEBS=(web1 web2)
  start_webs ''
  start_store --unixsocket "$BATS_FILE_TMPDIR/store.sock"
  store acl setuser fleet on '>secret' '~vhostlimit:*' +getrange +set +sadd +srem +smembers +mget >"$BATS_TEST_TMPDIR/acl"
  store config set requirepass other >"$BATS_TEST_TMPDIR/password"
  echo secret >"$BATS_FILE_TMPDIR/password"
  start_daemon web1 "store unix:$BATS_FILE_TMPDIR/store.sock" 'user fleet' "password-file $BATS_FILE_TMPDIR/password"
  wait_until 15 is_leasing web1
  start_daemon web2
  wait_until 15 says_denied web2
}
says_denied() { grep -q 'NOAUTH' "$(daemon_folder "$1")/fleet.log"; }  # <web>

@test "the daemon uses the next address if a store takes no writes" {
  WEBS=(web1)
  start_webs ''
  start_store
  (detached redis-server --port "$(free_port -replica)" --bind 127.0.0.1 --dir "$BATS_FILE_TMPDIR" --save '' --replicaof 127.0.0.1 "$(store_port)") \
    >"$BATS_FILE_TMPDIR/replica.log" 2>&1 &
  replica=$!
  wait_until 10 grep -q 'Finished with success' "$BATS_FILE_TMPDIR/replica.log"
  start_daemon web1 "store 127.0.0.1:$(free_port -replica) 127.0.0.1:$(store_port)"
  wait_until 15 is_leasing web1
  kill -KILL "$replica"
  is "$(fleet_of web1 .store)" "127.0.0.1:$(store_port)"
  like "$(daemon_log web1)" 'READONLY'
}

@test "errors in the configuration file are reported with their line" {
  local conf=$BATS_TEST_TMPDIR/conf
  check() { printf '%s\n' "$@" >"$conf"; try "$FLEET_DAEMON" -t -c "$conf"; }
  check 'store 127.0.0.1:6379' '# a comment' 'limit a.test cpu=150% concurrency=4' 'floor 5%' 'capacity 250%'
  is "$status $output" '0 Syntax OK'
  check 'fleet a b'
  is "$status" 2
  like "$output" 'conf, line 1: fleet takes one value'
  check 'store 127.0.0.1:6379' 'limit a.test cpu=0%'
  like "$output" 'line 2: limit takes SITE cpu=PERCENT%'
  check 'store localhost'
  like "$output" 'line 1: store takes HOST:PORT'
  check 'shop 1'
  like "$output" 'line 1: shop is no keyword'
  check ''
  like "$output" 'no store: add a line'
}
