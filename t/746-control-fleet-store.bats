#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Connections of vhostlimit-fleet to its store: over TLS, and to the master that a sentinel
# names. The store and the sentinel are real ones.
# shellcheck disable=SC2154  # variables of lib/fleet.bash

load lib/live
load lib/control
load lib/fleet

setup() {
  requires root ctl fleet redis
  store_pid='' others=()
  TLS=$BATS_FILE_TMPDIR/tls
}

teardown() {
  local web
  for web in "${!daemon_pids[@]}"; do kill_daemon "$web" TERM; done
  [[ -z $store_pid ]] || kill_store
  ((${#others[@]} == 0)) || kill -KILL "${others[@]}" 2>/dev/null || :
  for web in web1 web2; do [[ ! -e $(daemon_folder "$web")/httpd ]] || end_web "$web"; done
}

# ---- addresses ---------------------------------------------------------------------

# A port of 127.0.0.1 whose connections are neither accepted nor refused: its backlog is full.
begin_silence() { # <port>
  # shellcheck disable=SC2016  # perl's own
  perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], Listen => 0, ReuseAddr => 1) or die $!;
    my @full = map { IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $ARGV[0], Blocking => 0) } 1 .. 4; print "ready\n"; close STDOUT; sleep' \
    "$1" >"$BATS_TEST_TMPDIR/silence" 3>&- 4>&- &
  others+=($!)
  wait_until 10 test -s "$BATS_TEST_TMPDIR/silence"
}

@test "a silent address of the store leaves the daemon time for the next one" {
  # shellcheck disable=SC2030  # start_daemon reads it
  local FLEET_DAEMON=$BATS_TEST_TMPDIR/daemon
  printf '127.0.0.1 store.test\n127.0.0.2 store.test\n' >"$BATS_TEST_TMPDIR/hosts"
  # shellcheck disable=SC2016  # of the inner shell
  printf '#!/bin/sh\nexec unshare -m sh -c '\''mount --bind %s /etc/hosts && exec "$@"'\'' sh %s "$@"\n' \
    "$BATS_TEST_TMPDIR/hosts" "${VL_BUILD_DIR:-$TOP}/fleet/vhostlimit-fleet" >"$FLEET_DAEMON"
  chmod 755 "$FLEET_DAEMON"
  # shellcheck disable=SC2317  # start_store calls it
  store() { redis-cli -h 127.0.0.2 -p "$(store_port)" "$@"; }
  begin_silence "$(store_port)"
  start_store --bind 127.0.0.2
  start_web web1 '' 'VhostLimit On'
  start_daemon web1 "store store.test:$(store_port)"
  wait_until 15 is_leasing web1
}

# ---- TLS ---------------------------------------------------------------------------

# A certificate authority that signs the certificates of the store and of a client.
make_certificates() {
  local name
  mkdir -p "$TLS"
  [[ ! -e $TLS/client.pem ]] || return 0
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout "$TLS/ca.key" -out "$TLS/ca.pem"
  for name in store client; do
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$name" -keyout "$TLS/$name.key" -out "$TLS/$name.csr"
    openssl x509 -req -days 2 -in "$TLS/$name.csr" -CA "$TLS/ca.pem" -CAkey "$TLS/ca.key" -CAcreateserial \
      -extfile <(echo 'subjectAltName=IP:127.0.0.1,DNS:store.test') -out "$TLS/$name.pem"
  done
} 2>"$BATS_FILE_TMPDIR/openssl.log"

store() { redis-cli -p "$(store_port)" --tls --cacert "$TLS/ca.pem" --cert "$TLS/client.pem" --key "$TLS/client.key" "$@"; }

# Starts a store that clients can only reach over TLS, and with a certificate of their own.
start_tls_store() {
  make_certificates
  (detached redis-server --port 0 --tls-port "$(store_port)" --bind 127.0.0.1 --dir "$BATS_FILE_TMPDIR" --save '' \
    --tls-cert-file "$TLS/store.pem" --tls-key-file "$TLS/store.key" --tls-ca-cert-file "$TLS/ca.pem" --tls-auth-clients yes) \
    >"$BATS_FILE_TMPDIR/store.log" 2>&1 &
  store_pid=$!
  wait_until 10 store_answers
}

# A report of another server that is longer than many TLS records.
long_report() {
  printf 'vhostlimit-fleet 1 big 1 1 1000000 5000\n'
  seq -f 'site%.0f.example' 5000 | sed $'s/$/\t100\t10\t10\t1/'
}

@test "the daemon uses TLS with a certificate of its own" {
  requires openssl
  start_tls_store
  start_web web1 '' 'VhostLimit On'
  start_daemon web1 'tls on' "tls-ca $TLS/ca.pem" "tls-cert $TLS/client.pem" "tls-key $TLS/client.key"
  wait_until 15 is_leasing web1
  store sadd 'vhostlimit:{main}:servers' big >"$BATS_TEST_TMPDIR/added"
  long_report | store -x set 'vhostlimit:{main}:report:big' >"$BATS_TEST_TMPDIR/set"
  wait_until 10 knows_servers web1 2
  is "$(fleet_of web1 .fleet_sites)" 5000 "sites that the long report has"
}

@test "a store whose certificate is not trusted, or has another name, is not used" {
  requires openssl
  start_tls_store
  start_web web1 '' 'VhostLimit On'
  start_daemon web1 'tls on' "tls-cert $TLS/client.pem" "tls-key $TLS/client.key"
  wait_until 15 says web1 'TLS: .*(issuer|certificate)'
  kill_daemon web1 TERM
  start_daemon web1 'tls on' "tls-ca $TLS/ca.pem" "tls-cert $TLS/client.pem" "tls-key $TLS/client.key" 'tls-name other.test'
  wait_until 15 says web1 'TLS: [Hh]ostname mismatch'
  is "$(store exists 'vhostlimit:{main}:report:web1')" 0 "reports in the store"
  kill_daemon web1 TERM
  start_daemon web1 'tls on' "tls-ca $TLS/ca.pem" "tls-cert $TLS/client.pem" "tls-key $TLS/client.key" 'tls-name store.test'
  wait_until 15 is_leasing web1
}

@test "a store that asks for a certificate refuses a daemon without one, and one without TLS" {
  requires openssl
  start_tls_store
  start_web web1 '' 'VhostLimit On'
  start_daemon web1 'tls on' "tls-ca $TLS/ca.pem"
  wait_until 15 says web1 'certificate required|TLS:'
  kill_daemon web1 TERM
  : >"$(daemon_folder web1)/fleet.log"
  start_daemon web1
  wait_until 15 says web1 'closed|reset'
  is "$(store exists 'vhostlimit:{main}:report:web1')" 0 "reports in the store"
}
says() { grep -qE "$2" "$(daemon_folder "$1")/fleet.log"; }  # <web> <pattern>

# ---- sentinel ----------------------------------------------------------------------

# Starts a server of Redis's in the background.
start_other() { # <name> <command>...
  (detached "${@:2}") >"$BATS_FILE_TMPDIR/$1.log" 2>&1 &
  others+=($!)
}

start_sentinel() { # <port of the master>
  printf '%s\n' "port $(free_port -sentinel)" 'bind 127.0.0.1' "dir $BATS_FILE_TMPDIR" 'requirepass sesame' \
    "sentinel monitor shop 127.0.0.1 $1 1" 'sentinel down-after-milliseconds shop 500' \
    'sentinel failover-timeout shop 3000' >"$BATS_FILE_TMPDIR/sentinel.conf"
  start_other sentinel redis-sentinel "$BATS_FILE_TMPDIR/sentinel.conf"
  wait_until 20 sentinel_knows 1
}

# Does the sentinel know so many replicas?
sentinel_knows() { # <number>
  [[ $(redis-cli -p "$(free_port -sentinel)" --no-auth-warning -a sesame info sentinel 2>/dev/null) == *"slaves=$1"* ]]
}

uses_store() { [[ $(fleet_of "$1" '"\(.state) \(.store)"' 2>/dev/null) == "leasing $2" ]]; }  # <web> <address>

@test "a sentinel names the master, and after its death the new one" {
  local replica
  requires sentinel
  (detached redis-server --port "$(store_port)" --bind 127.0.0.1 --dir "$BATS_FILE_TMPDIR" --save '') >"$BATS_FILE_TMPDIR/store.log" 2>&1 &
  store_pid=$!
  replica=127.0.0.1:$(free_port -replica)
  start_other replica redis-server --port "${replica#*:}" --bind 127.0.0.1 --dir "$BATS_FILE_TMPDIR" --save '' \
    --dbfilename replica.rdb --replicaof 127.0.0.1 "$(store_port)" --repl-diskless-sync-delay 0
  start_sentinel "$(store_port)"
  echo sesame >"$BATS_FILE_TMPDIR/sesame"
  start_web web1 '' 'VhostLimit On'
  start_daemon web1 "sentinel shop 127.0.0.1:$(free_port -nobody) 127.0.0.1:$(free_port -sentinel)" \
    "sentinel-password-file $BATS_FILE_TMPDIR/sesame"
  wait_until 15 uses_store web1 "127.0.0.1:$(store_port)"
  kill_store
  wait_until 30 uses_store web1 "$replica"
  store_pid=''
}

@test "a sentinel without the master, or without its password, is reported" {
  requires sentinel
  (detached redis-server --port "$(store_port)" --bind 127.0.0.1 --dir "$BATS_FILE_TMPDIR" --save '') >"$BATS_FILE_TMPDIR/store.log" 2>&1 &
  store_pid=$!
  printf '%s\n' "port $(free_port -sentinel)" 'bind 127.0.0.1' "dir $BATS_FILE_TMPDIR" 'requirepass sesame' \
    "sentinel monitor shop 127.0.0.1 $(store_port) 1" >"$BATS_FILE_TMPDIR/sentinel.conf"
  start_other sentinel redis-sentinel "$BATS_FILE_TMPDIR/sentinel.conf"
  wait_until 10 sentinel_knows 0
  echo sesame >"$BATS_FILE_TMPDIR/sesame"
  start_web web1 '' 'VhostLimit On'
  start_daemon web1 "sentinel blog 127.0.0.1:$(free_port -sentinel)" "sentinel-password-file $BATS_FILE_TMPDIR/sesame"
  wait_until 15 says web1 'the sentinel .*: it knows no master of that name'
  kill_daemon web1 TERM
  start_daemon web1 "sentinel shop 127.0.0.1:$(free_port -sentinel)"
  wait_until 15 says web1 'the sentinel .*: NOAUTH'
}

# ---- the configuration -------------------------------------------------------------

@test "errors in the lines about TLS and sentinels are reported" {
  local conf=$BATS_TEST_TMPDIR/conf
  # shellcheck disable=SC2031  # each test is a shell of its own
  check() { printf '%s\n' "$@" >"$conf"; try "$FLEET_DAEMON" -t -c "$conf"; }
  check 'sentinel shop 127.0.0.1:26379 [::1]:26379'
  is "$status $output" '0 Syntax OK'
  check 'sentinel shop'
  like "$output" 'line 1: sentinel takes the name of the master and HOST:PORT'
  check 'store 127.0.0.1:6379' 'sentinel shop 127.0.0.1:26379'
  like "$output" 'line 2: sentinel cannot be used together with store'
  check 'store 127.0.0.1:6379' 'tls-name store.test'
  like "$output" 'tls-ca, tls-cert, tls-key and tls-name need "tls on"'
  check 'store 127.0.0.1:6379' 'tls on' 'tls-cert /nowhere'
  like "$output" 'tls-cert and tls-key need each other'
  check 'store 127.0.0.1:6379' 'tls on' 'tls-ca /nowhere'
  is "$status" 2
  like "$output" 'tls-ca /nowhere cannot be used: .*[Nn]o such file'
}
