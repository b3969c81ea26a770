#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# needs: bed
# bench.sh --clients: other machines over ssh, with a real sshd on each.

bats_require_minimum_version 1.5.0
load lib/common
load lib/machines

setup_file() {
  meets root sshd siege sar netns || return 0
  machines_up
}

teardown_file() { [[ ! -d $BATS_FILE_TMPDIR/machines ]] || machines_down 2>/dev/null; }

setup() {
  requires root sshd siege sar netns
  cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
  if [[ -n ${bench-} ]]; then kill -TERM "$bench" 2>/dev/null && wait "$bench"; fi || true
}

# Runs on vlt-server; its pid is in $bench.
begin_bench() { # <option>...
  # A shell's background jobs ignore INT, a program started by hand does not.
  on_server env --default-signal=INT "$TOP/tools/bench.sh" --quick --keep-noisy --target plain --page sleep -w 50 -o out "$@" \
    >report 2>log 3>&- &
  bench=$!
}

end_bench() { # sets status
  status=0
  wait "$bench" || status=$?
  bench=
  cat report log
  echo "status $status"
}

logged() { # <words>: on stderr, one line
  grep -qF -- "$1" log || fail "not in the log: $1"
}

# Waits for a condition while bench.sh runs.
meanwhile() { # <command>...
  wait_until 120 succeeds_or_ended "$@"
  if gone "$bench"; then cat log; fail "over before: $*"; fi
}
succeeds_or_ended() { "$@" || gone "$bench"; }

began() { grep -qs '^began' "out/$1-sleep-plain-load$2.err"; }     # <repetition> <client>
mapped()     { grep -q "^${2-198.18.9.1} site1.test" "/etc/netns/vlt-host$1/hosts"; }   # <number> [<address>]
server_is_clean() { # nothing of a run is left on it
  local pids
  mapfile -t pids < <(ip netns pids vlt-server)
  ((${#pids[@]} == 0)) || fail "left on the server: $(ps -o pid=,etimes=,args= -p "${pids[*]}")"
}

@test "a client without siege is named, and nothing is installed or left on it" {
  begin_bench --clients one,two,three
  end_bench
  is "$status" 3
  logged 'client one: siege is not installed there'
  machines_clean
  [ ! -e "$MACHINES_DIR/host1/bin/siege" ]
}

@test "an unreachable client is named with ssh's reason" {
  begin_bench --clients two,nowhere.invalid
  end_bench
  is "$status" 3
  logged 'client nowhere.invalid: ssh: Could not resolve hostname'
  machines_clean
}

@test "--install installs siege, all clients begin at once whatever their clocks, and all is restored" {
  begin_bench --clients one,two,three --install
  meanwhile began 1 3
  mapped 1
  end_bench
  is "$status" 0
  machines_clean
  server_is_clean
  [ -e "$MACHINES_DIR/host1/bin/siege" ]
  jq -c '.runs[0].client_cpu' out/result.json
  jq -e '.runs[0].client_cpu | map(.name) == ["client one", "client two", "client three"]
    and all(.idle >= 0 and .busy > 0 and .steal >= 0 and .idle + .busy + .steal < 101)' out/result.json
  is "$(jq -r '.runs[0].clients | map("\(.client) \(.site) \(.users)") | join(", ")' out/result.json)" \
    '1 site1 100, 2 site2 500, 3 site2 500'
  jq -c '.runs[0].clients | map(.from_s)' out/result.json
  jq -e '.runs[0].clients | map(.from_s) | all(. > -1 and . < 2)' out/result.json
  jq -e '.complete and .runs[0].total.transactions > 0 and (.options.load | test("^siege [0-9.]+ on one, two, three$"))' out/result.json
}

@test "if siege cannot start its users in time, the run is repeated with a start time of its own" {
  requires long
  cp "$MACHINES_DIR/late" "$MACHINES_DIR/host3/bin/siege"
  begin_bench --clients one,two,three --install
  end_bench
  rm "$MACHINES_DIR/host3/bin/siege"
  is "$status" 0
  logged 'Unable to spawn; the run is repeated'
  jq -c '.runs[0].clients | map(.from_s)' out/result.json
  jq -e '.complete and (.runs[0].clients | map(.from_s) | all(. > -1 and . < 2))' out/result.json
}

@test "a test's own generator is installed, runs with its preloaded library, and reports times" {
  requires long h2load openssl
  # With a thread for each connection, plain Apache answers the victim too.
  begin_bench --clients one,two,three --install -w 400 http2
  end_bench
  is "$status" 0
  machines_clean
  server_is_clean
  jq -c '.options.load, (.runs[0].clients | map([.transactions, .failures, .p99_s]))' out/result.json
  jq -e '(.options.load | test("^h2load [0-9.]+ on one, two, three$"))
    and (.runs[0].clients | length == 3 and all(.transactions > 0 and .p99_s > 0))' out/result.json
}

# A neighbor in the clients' network that is not a client.
stranger_up() {
  ip -n vlt-host2 address add 198.18.9.99/32 dev lo
  ip -n vlt-server route add 198.18.9.99 dev vlt-host2
}

answer_to() { # <address of machine 2> [port]: its status; 000 if there is no answer
  on_client 2 curl -s -m 20 -o /dev/null -w '%{http_code}' --interface "$1" -H 'Host: site1.test' "http://198.18.9.1${2+:$2}/burn.php?ms=1" || true
}

@test "pages are served to the clients and this machine, and other addresses get 403, also with a front" {
  requires haproxy
  stranger_up
  begin_bench --clients two,three --target plain --repeat 4
  meanwhile began 1 2
  is "$(answer_to 198.18.9.99)" 403 'to a stranger'
  is "$(answer_to 198.18.9.12)" 200 'to a client'
  is "$(on_server curl -s -m 20 -o /dev/null -w '%{http_code}' -H 'Host: site1.test' http://198.18.9.1/)" 200 'to the machine'
  signal_until_gone INT "$bench"
  end_bench
  logged 'pages are served to this machine and to 198.18.9.12 198.18.9.13 only'
  server_is_clean
  begin_bench --clients two --target haproxy --repeat 4
  meanwhile [ -e out/1-sleep-haproxy-load1.err ]
  meanwhile grep -q '^began' out/1-sleep-haproxy-load1.err
  is "$(answer_to 198.18.9.99)" 403 'to a stranger, from HAProxy'
  is "$(answer_to 198.18.9.99 8080)" 000 'to a stranger, from Apache behind it'
  is "$(answer_to 198.18.9.12)" 200 'to a client, through HAProxy'
  signal_until_gone INT "$bench"
  end_bench
  machines_clean
  server_is_clean
}

# Gives the server another address that the clients do not use.
second_address() {
  local n
  ip -n vlt-server address add 198.18.9.2/32 dev lo
  for n in 1 2 3; do ip -n "vlt-host$n" route add 198.18.9.2 dev eth0 src "198.18.9.1$n"; done
}

@test "--server must be an address of this machine" {
  begin_bench --clients two --server 198.18.9.3
  end_bench
  is "$status" 3
  logged '--server: 198.18.9.3 is not an address of this machine'
  machines_clean
}

@test "an interrupted measurement restores the clients" {
  second_address
  begin_bench --clients one,two,three --server 198.18.9.2 --repeat 3
  meanwhile began 1 2
  mapped 1 198.18.9.2
  signal_until_gone INT "$bench"
  end_bench
  is "$status" 130
  server_is_clean
  machines_clean
}

@test "a dead client, and in the long form a stalled one, are named, and the complete repetitions are reported" {
  local dies_in=2
  begin_bench --clients one,two,three --repeat 3
  meanwhile [ -e out/1-sleep-plain.json ]
  if [[ ${VL_LONG:-0} != 0 ]]; then
    cp "$MACHINES_DIR/hangs" "$MACHINES_DIR/host3/bin/siege"
    meanwhile grep -qF 'client three, 500 users on site2: it did not end in time and was killed' log
    rm "$MACHINES_DIR/host3/bin/siege"
    dies_in=3
  fi
  meanwhile began "$dies_in" 2
  machine_off 2
  end_bench
  is "$status" 3
  logged 'client two, 500 users on site2: the connection was lost'
  grep -q '1 repetition of 3' report
  jq -e '(.complete | not) and (.runs | length) == 1' out/result.json
  server_is_clean
  mapped 2
}

@test "clients restore themselves after a kill, and the next run cleans a dead one" {
  machine_boot 2
  wait_until 10 machines_listen
  begin_bench --clients one,two,three --repeat 3
  meanwhile began 1 3
  kill -KILL "$bench"
  end_bench
  is "$status" 137
  wait_until 15 machines_clean
  on_server "$TOP/tools/setup.sh" down 3>&- &
  wait "$!"
  wait_until 10 server_is_clean 2>/dev/null || server_is_clean        # sar ends with its last sample
}
