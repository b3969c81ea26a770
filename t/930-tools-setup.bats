#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# needs: bed h2load mod_lua openssl
# The test bed: up, changes, recovery after crashes, and a complete down.

bats_require_minimum_version 1.5.0
TOP=$(cd -- "$BATS_TEST_DIRNAME/.." && pwd)
SETUP=$TOP/tools/setup.sh
BED=${VL_BED:-vhostlimit-testbed}
DIR=/run/$BED

setup_file() {
  ((EUID == 0)) || return 0
  ip netns add vl-probe 2>/dev/null && ip netns del vl-probe && touch "$BATS_FILE_TMPDIR/able"
}

setup() {
  ((EUID == 0)) || skip "not root"
  [[ -e $BATS_FILE_TMPDIR/able ]] || skip "no network namespaces here"
}

teardown_file() { ((EUID != 0)) || "$SETUP" down 3>&-; }

bed() { # <argument>...
  run "$SETUP" "$@" 3>&-
  printf '$ setup.sh %s\n%s\n[status %s]\n' "$*" "$output" "$status"
}

fetch() { ip netns exec "vl-client$1" curl -fsS -m 5 "$2"; } # <client> <url>

nothing_left() {
  [[ ! -e $DIR && ! -e $DIR.lock && ! -e /etc/netns/vl-client1 ]] || return 1
  ! grep -q '^vl-' <<<"$(ip netns list)" || return 1
  ! grep -q ' /run/netns/vl-' /proc/self/mounts || return 1
  [[ -z $(find /sys/fs/cgroup -maxdepth 2 -type d -name "$BED*") ]] || return 1
  ! grep -qs "[/]run/$BED" /proc/[0-9]*/cmdline
}

@test "each client reaches each site by name, static and PHP" {
  bed up
  [ "$status" -eq 0 ]
  for n in 1 2 3; do
    [[ $(fetch "$n" "http://site$n.test/") == *"<h1>site$n.test"* ]]
    [[ $(fetch "$n" http://site1.test/info.php) == *"phpinfo()"* ]]
  done
}

@test "status shows the namespaces and the module" {
  bed status
  [ "$status" -eq 0 ]
  [[ $output == *$'vl-server\tpresent'* && $output == *$'module\toff'* ]]
}

@test "a second up changes nothing" {
  before=$(<"$DIR/httpd.pid")
  bed up
  [ "$status" -eq 0 ]
  [[ $output == *"up already"* ]]
  [ "$(<"$DIR/httpd.pid")" = "$before" ]
}

@test "up with other options sets up the bed again" {
  bed up -m worker -w 50 -p 3 -D 'Header unset X' -D 'TraceEnable off'
  [ "$status" -ne 0 ]
  [[ $output == *"Apache rejects its configuration"*Header* ]]
  bed up -m worker -w 50 -p 3 -D 'TraceEnable off'
  [ "$status" -eq 0 ]
  fetch 1 http://site1.test/ >/dev/null
  grep -q '^MaxRequestWorkers 50$' "$DIR/httpd.conf"
}

@test "up recovers after Apache and PHP-FPM were killed without their children" {
  kill -KILL "$(<"$DIR/httpd.pid")" "$(<"$DIR/fpm.pid")"
  bed status
  [ "$status" -eq 1 ]
  bed up
  [ "$status" -eq 0 ]
  fetch 2 http://site2.test/info.php >/dev/null
}

@test "up recovers after a namespace was removed" {
  ip netns del vl-client2
  bed up
  [ "$status" -eq 0 ]
  fetch 2 http://site2.test/ >/dev/null
}

@test "a stale pidfile does not kill an unrelated process" {
  sleep 300 3>&- &
  stranger=$!
  kill -KILL "$(<"$DIR/httpd.pid")"
  echo "$stranger" >"$DIR/httpd.pid"
  bed up
  [ "$status" -eq 0 ]
  bed down
  [ "$status" -eq 0 ]
  kill "$stranger"
}

@test "a port in use is reported with its process" {
  ip netns add vl-server
  ip -n vl-server link set lo up
  # shellcheck disable=SC2016  # perl's own
  ip netns exec vl-server perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(LocalPort => 80, Listen => 1) or die; sleep 60' 3>&- &
  for _ in {1..50}; do
    [[ -z $(nsenter --net=/run/netns/vl-server ss -Hltn 'sport = :80') ]] || break
    sleep 0.1
  done
  bed up
  [ "$status" -eq 77 ]
  [[ $output == *"port 80 is taken in network namespace vl-server by process"*perl* ]]
  bed down
  [ "$status" -eq 0 ]
}

# Phases of up that can be seen from outside, in their order.
has_begun()       { [[ -e $DIR ]]; }
has_namespaces()  { grep -q '^vl-server' <<<"$(ip netns list)"; }
has_a_client()    { grep -q '^vl-client2' <<<"$(ip netns list)"; }
has_started_php() { [[ -e $DIR/fpm.pid ]]; }

@test "up that is interrupted in any phase undoes its work" {
  bed down
  for phase in has_begun has_namespaces has_a_client has_started_php; do
    "$SETUP" up >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    pid=$!
    for _ in {1..2000}; do
      "$phase" && break
      sleep 0.01
    done
    "$phase" || { echo "up never came to $phase"; cat "$BATS_TEST_TMPDIR/out"; return 1; }
    kill -TERM "$pid" 2>/dev/null || true      # the last phase may be the end
    status=0
    wait "$pid" || status=$?
    echo "# $phase: up ended with $status"
    # It has either undone its work or was complete when the signal came.
    if [ "$status" -eq 0 ]; then
      bed status
      [ "$status" -eq 0 ]
      bed down
    fi
    nothing_left
  done
}

@test "a second tool is refused while one uses the bed" {
  bed up
  exec 8>>"$DIR.lock"
  flock -n 8
  bed down
  [ "$status" -eq 77 ]
  [[ $output == *"another tool uses the test bed"* ]]
  exec 8>&-
}

@test "down removes everything, and a second down succeeds" {
  bed down
  [ "$status" -eq 0 ]
  nothing_left
  bed down
  [ "$status" -eq 0 ]
  bed status
  [ "$status" -eq 1 ]
}

@test "up -M loads the module, and down removes its groups" {
  [[ -e $TOP/mod_vhostlimit/.libs/mod_vhostlimit.so ]] || skip "the module is not built"
  bed up -M -D 'VhostLimitConcurrency 5'
  [ "$status" -eq 0 ]
  page=$(nsenter --net=/run/netns/vl-server curl -fsS 'http://127.0.0.1:8081/vhostlimit-status?json')
  [ "$(jq '.vhosts[] | select(.name == "site1.test") | .concurrency' <<<"$page")" = 5 ]
  bed down
  [ "$status" -eq 0 ]
  nothing_left
}

@test "pages that burn CPU time or sleep work in PHP and as CGI" {
  bed up
  [ "$status" -eq 0 ]
  for kind in php cgi; do
    [ "$(fetch 1 "http://site1.test/burn.$kind?ms=30")" = "burned 30 ms" ]
    [ "$(fetch 1 "http://site1.test/sleep.$kind?ms=30")" = "slept 30 ms" ]
  done
}

@test "up -L serves a page that burns CPU time in Apache's own thread" {
  # shellcheck disable=SC1091
  [[ -e $(. "$TOP/tools/lib/common.sh"; . "$TOP/tools/lib/httpd.sh"; httpd_module_dir)/mod_lua.so ]] || skip "no mod_lua"
  bed up -L
  [ "$status" -eq 0 ]
  [ "$(fetch 1 "http://site1.test/burn.lua?ms=5")" = "burned about 5 ms" ]
}

in_group() { # <pid> <site>   of the hierarchy that counts CPU time
  grep -qE ":(cpuacct|cpu,cpuacct|):/$BED/$2.test\$" "/proc/$1/cgroup"
}

@test "up -M -P gives each site a PHP-FPM in its own group" {
  [[ -e $TOP/mod_vhostlimit/.libs/mod_vhostlimit.so ]] || skip "the module is not built"
  bed up -M -P -p 2 -D 'VhostLimitProcesses 40'
  [ "$status" -eq 0 ]
  for n in 1 2 3; do
    pid=$(<"$DIR/fpm-site$n.pid")
    in_group "$pid" "site$n"
    for child in $(<"/proc/$pid/task/$pid/children"); do in_group "$child" "site$n"; done
    [ "$(fetch 1 "http://site$n.test/burn.php?ms=1")" = "burned 1 ms" ]
  done
  bed status
  [ "$status" -eq 0 ]
  [[ $output == *fpm-site3* ]]
  bed down
  [ "$status" -eq 0 ]
  nothing_left
}

@test "up -P without the module has a pool for each site and no groups" {
  bed up -P -p 2
  [ "$status" -eq 0 ]
  [ "$(grep -c vhostlimit "/proc/$(<"$DIR/fpm-site2.pid")/cgroup")" -eq 0 ]
  bed up
  [ "$status" -eq 0 ]
  [[ ! -e $DIR/fpm-site1.conf && -e $DIR/fpm.conf ]]
  bed down
  nothing_left
}

@test "up -T serves the sites over TLS, HTTP/1.1 and HTTP/2" {
  command -v openssl >/dev/null || skip "no openssl"
  bed up -T
  [ "$status" -eq 0 ]
  [[ $(ip netns exec vl-client2 curl -sS -m 5 --cacert "$DIR/tls/cert.pem" -w '%{http_version}' https://site2.test/) == *"<h1>site2.test"*2 ]]
  [[ $(ip netns exec vl-client1 curl -sS -m 5 --http1.1 --cacert "$DIR/tls/cert.pem" https://site1.test/info.php) == *"phpinfo()"* ]]
}

# Prints each address that is in the access log and how many requests it sent.
senders() { sort "$DIR/senders.log" | uniq -c | awk '{ print $2, $1 }'; }

@test "a crowd sends from the addresses of its client, at its rate, gives up, and may be slow" {
  bed up -D 'LogFormat "%a" address' -D "CustomLog $DIR/senders.log address" -D 'LimitRequestFields 8'
  [ "$status" -eq 0 ]
  gcc -std=gnu11 -O2 -Wall -Wextra -Werror -o "$BATS_TEST_TMPDIR/crowd" "$TOP/tools/lib/crowd.c"
  crowd() { ip netns exec vl-client2 "$BATS_TEST_TMPDIR/crowd" site1.test 80 "$@"; }
  run crowd /index.html 10 1 from=198.19.128.250 addresses=300
  printf '%s\n' "$output"
  jq -e '.good >= 300 and .refused + .broken + .gave_up == 0 and .timed == .good' <<<"$output"
  [ "$(senders | grep -cE '^198\.19\.(128\.25[0-5]|129\.[0-9]+|130\.([0-9]|[12][0-9]|3[0-7])) ')" -eq 300 ]
  begin() { crowd "${@:2}" >"$BATS_TEST_TMPDIR/$1" 3>&- & crowds+=("$!"); }      # <name> <as crowd>
  said() { printf '%s: ' "$1"; cat "$BATS_TEST_TMPDIR/$1"; jq -e "$2" "$BATS_TEST_TMPDIR/$1"; }   # <name> <jq filter>
  local crowds=()
  begin rate '/sleep.php?ms=2000' 4 3 rate=5
  begin missing /missing.html 4 1
  begin slow / 4 2 rate=2 pause=0.1
  begin paused / 4 2 rate=2 pause=10 patience=1
  begin held '/sleep.php?ms=2000' 4 1 hold=1
  begin kept / 4 1 hold=1
  begin refused /missing.html 4 1 hold=1
  wait "${crowds[@]}"
  # 20 requests a second, although each takes 2 s; the last ones count as they are.
  said rate '.begun >= 55 and .begun <= 61 and .good < .begun and .timed == .begun and .p50 >= 0'
  said missing '.good == 0 and .refused > 0'
  # Slow clients never end their requests, and Apache answers 400 after 8 headers.
  said slow '.good == 0 and .broken == 0 and .refused >= 4'
  said paused '.good == 0 and .refused == 0 and .gave_up >= 4'
  # Each client sends one request and keeps the connection, which Apache ends after the page.
  said held '.begun == 4 and .good == 0'
  said kept '.begun == 4 and .good == 4 and .timed == 4 and .longest < 1'
  said refused '.begun == 4 and .refused == 4'
  run crowd '/sleep.php?ms=30000' 4 3 rate=1 patience=1
  printf '%s\n' "$output"
  jq -e '.good == 0 and .gave_up >= 4 and .timed == .begun and .longest < 2' <<<"$output"
  run crowd / 4 1 streams=1
  [ "$status" -eq 2 ]
}

@test "programs of the bed run if /run is mounted noexec" {
  # shellcheck disable=SC2016  # for the inner shell
  run unshare -m bash -c 'mount -t tmpfs -o noexec tmpfs /run && cd "$1/tools" && ./setup.sh up >&2 &&
    ip netns exec vl-client1 curl -fsS http://site1.test/hello.cgi; ./setup.sh down >&2; ls -A /run' - "$TOP" 3>&-
  printf '%s\n' "$output"
  [ "$status" -eq 0 ]
  [[ $output == *'Hello, world'* && $output != *testbed* ]]
}

@test "memory.sh prints the memory of an idle connection for each protocol and cleans up" {
  [[ ${VL_LONG:-0} != 0 ]] || skip "long: tools/check.sh --all"
  command -v h2load >/dev/null || skip "no h2load"
  [[ -e ${VL_BUILD_DIR:-$TOP}/mod_vhostlimit/.libs/mod_vhostlimit.so ]] || skip "the module is not built"
  run --separate-stderr "$TOP/tools/memory.sh" -n 100 3>&-
  # shellcheck disable=SC2154  # set by run --separate-stderr
  printf '%s\n' "$output" "$stderr"
  [ "$status" -eq 0 ]
  [ "${#lines[@]}" -eq 4 ]
  local line words
  for line in "${lines[@]:1}"; do
    read -ra words <<<"$line"
    ((words[1] > 0 && words[2] > 0 && words[3] > 0 && words[4] == 100))
  done
  [[ $output == *$'\nHTTP/1.1 '*$'\nTLS '*$'\nHTTP/2 '* ]]
  nothing_left
}

@test "check.sh: a file that fails runs once more alone, and the last failure decides" {
  local tree=$BATS_TEST_TMPDIR/tree
  mkdir -p "$tree/t/unit"
  ln -s "$TOP/tools" "$tree/tools"
  ln -s "$TOP/t/lib" "$tree/t/lib"
  printf '#!/bin/sh\necho 1..1; echo "ok 1"\n' >"$tree/t/unit/good.t"
  printf '#!/bin/sh\necho 1..1; if mkdir seen; then echo "not ok 1"; exit 1; fi; echo "ok 1"\n' >"$tree/t/unit/second.t"
  chmod +x "$tree"/t/unit/*.t
  cat >"$tree/run" <<'END'
. tools/check.sh
cd "$1"
shift
run_files "$(printf '%s\n' "$@")"
END
  cd "$TOP" || return
  run bash "$tree/run" "$tree" t/unit/good.t t/unit/second.t
  echo "$output"
  [ "$status" -eq 0 ]
  [[ $output == *'FAILED: t/unit/second.t'*'passed alone: t/unit/second.t'* ]]
  [[ ${lines[-2]} == Files=2,\ Tests=2,* && ${lines[-1]} == 'Result: PASS' ]]
  sed -i 's/if mkdir seen/if :/' "$tree/t/unit/second.t"
  run bash "$tree/run" "$tree" t/unit/good.t t/unit/second.t
  echo "$output"
  [ "$status" -eq 1 ]
  [[ ${lines[-1]} == 'Result: FAIL' ]]
}
