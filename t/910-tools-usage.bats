#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Each program in tools: help, usage errors, and use without root.
# shellcheck disable=SC2030,SC2031  # tool is set and read within one test

bats_require_minimum_version 1.5.0
load lib/common

exits() { # <status> <words in the output>
  printf 'status %s\n%s\n' "$status" "$output"
  [ "$status" -eq "$1" ] && [[ $output == *"$2"* ]]
}

as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }

needs_root() { ((EUID == 0)) || skip "not root"; }

programs() { # every program in tools
  local file
  for file in "$TOP"/tools/*; do
    [[ ! -f $file || ! -x $file ]] || printf '%s\n' "$file"
  done
}

@test "every program has -h, --help and --version, which print to stdout and end with 0" {
  local tools tool option version
  mapfile -t tools < <(programs)
  [ "${#tools[@]}" -ge 11 ]
  version=$(sed -n 's/^AC_INIT(\[mod_vhostlimit\], \[\(.*\)\])$/\1/p' "$TOP/configure.ac")
  for tool in "${tools[@]}"; do
    for option in -h --help; do
      run --separate-stderr "$tool" "$option"
      exits 0 "Usage:   ${tool##*/}"
      [[ $output == *Exit:* && $output == *' -h, --help '* && $output == *' --version '* && -z $stderr ]]
    done
    run --separate-stderr "$tool" --version
    exits 0 "${tool##*/} (mod_vhostlimit) $version"
    [ "${#lines[@]}" -eq 1 ]
    [ -z "$stderr" ]
  done
}

@test "a usage error of each program prints one sentence and a pointer to the help on stderr" {
  local tools tool option
  mapfile -t tools < <(programs)
  for tool in "${tools[@]}"; do
    for option in -Z --no-such-option; do
      run --separate-stderr "$tool" "$option"
      exits 2 ''
      printf '%s\n' "$stderr"
      [ -z "$output" ]
      # shellcheck disable=SC2154  # set by run --separate-stderr
      [ "${#stderr_lines[@]}" -eq 2 ]
      [[ ${stderr_lines[0]} == "${tool##*/}: "*"${option#-}"* ]]
      [ "${stderr_lines[1]}" = "Try '${tool##*/} --help'." ]
    done
  done
}

@test "a value may look like an option, and -h after an argument prints the help" {
  run "$TOP/tools/fuzz.sh" -s -h
  exits 2 "-s: '-h' is not a whole number"
  run "$TOP/tools/bench.sh" --repeat --version
  exits 2 "--repeat: '--version' is not a whole number"
  run "$TOP/tools/bench.sh" noisy --quick -h
  exits 0 'Usage:   bench.sh'
  run "$TOP/tools/cgroups.sh" v3 true --version
  exits 2 "'v3' is not v1 or v2"
}

@test "setup.sh names an invalid command or value" {
  run "$TOP/tools/setup.sh"
  exits 2 "missing command: up, down or status"
  run "$TOP/tools/setup.sh" sideways
  exits 2 "unknown command 'sideways'"
  run "$TOP/tools/setup.sh" up -m threaded
  exits 2 "-m: 'threaded' is not event, worker or prefork"
  run "$TOP/tools/setup.sh" up -w 410
  exits 2 "-w: '410' is not a multiple of 25"
  run "$TOP/tools/setup.sh" up -p 0
  exits 2 "-p: '0' is not a whole number"
  run "$TOP/tools/setup.sh" down now
  exits 2 "unexpected argument 'now'"
  run "$TOP/tools/setup.sh" down -M
  exits 2 "-M is valid with up only"
}

@test "bench.sh names an invalid test or value" {
  run "$TOP/tools/bench.sh" quiet
  exits 2 "unknown test 'quiet'"
  run "$TOP/tools/bench.sh" --target plain,other
  exits 2 "--target: 'other' is not one of plain plain-best vhostlimit mod_qos"
  run "$TOP/tools/bench.sh" --page cgi
  exits 2 "--page: 'cgi' is not one of static php sleep"
  run "$TOP/tools/bench.sh" --page static mix
  exits 2 "--page: the test mix has its own pages"
  for n in 0 100 -1 two 1.5; do
    run "$TOP/tools/bench.sh" --repeat "$n"
    exits 2 "--repeat: '$n' is not a whole number from 1 to 99"
  done
  for n in 0 3601 1.5 08; do
    run "$TOP/tools/bench.sh" --seconds "$n"
    exits 2 "--seconds: '$n' is not a whole number from 1 to 3600"
  done
  run "$TOP/tools/bench.sh" --load ab
  exits 2 "--load: 'ab' is not one of siege wrk"
  run "$TOP/tools/bench.sh" --load wrk http2
  exits 2 "--load: the test http2 always uses h2load"
  for n in 0 two -1; do
    run "$TOP/tools/bench.sh" --server-cpus "$n"
    exits 2 "--server-cpus: '$n' is not a whole number from 1 to 999"
  done
  run "$TOP/tools/bench.sh" --server-cpus 2 --clients one
  exits 2 "--server-cpus: with --clients the server has all CPUs of this machine"
  run "$TOP/tools/bench.sh" --awake --clients one
  exits 2 "--awake: with --clients no load generator runs on this machine"
  run "$TOP/tools/bench.sh" -w 0
  exits 2 "-w: '0' is not a multiple of 25"
}

@test "bench.sh names invalid clients and targets" {
  for hosts in one,two,three,four ''; do
    run "$TOP/tools/bench.sh" --clients "$hosts"
    exits 2 "--clients: "
  done
  for host in -oProxyCommand=x 'a b' 'a;b'; do
    run "$TOP/tools/bench.sh" --clients "one,$host"
    exits 2 "--clients: '$host' is not a host name"
  done
  run "$TOP/tools/bench.sh" --install
  exits 2 "--install and --server are valid with --clients only"
  run "$TOP/tools/bench.sh" --clients one,two strangers
  exits 2 "--clients: the test strangers needs the clients of the test bed: "
  run "$TOP/tools/bench.sh" --target haproxy weights
  exits 2 "--target: the test weights cannot run haproxy"
}

@test "bench.sh -l prints one line for each test" {
  run "$TOP/tools/bench.sh" -l
  for name in alone cap cpu cpu-shared cpu-threads cpu-weights inside isolation light mix noisy recovery vhosts weights; do
    exits 0 "$name"$'\t'
  done
}

@test "without root, setup.sh and bench.sh end with 77 and one sentence" {
  needs_root
  for words in 'setup.sh up' 'setup.sh down' 'setup.sh status' 'bench.sh --quick'; do
    # shellcheck disable=SC2086  # program and arguments
    run as_nobody bash -c 'cd / && exec "$@"' - "$TOP"/tools/$words
    exits 77 "this needs root"
    [ "${#lines[@]}" -eq 1 ]
  done
}

@test "too few file descriptors end with 77 and one sentence" {
  needs_root
  run bash -c "ulimit -n 300; '$TOP/tools/bench.sh' --quick"
  exits 77 "too few file descriptors"
  [ "${#lines[@]}" -eq 1 ]
}

@test "a program that cannot be installed ends with 77 and its role" {
  needs_root
  run bash -c ". '$TOP/tools/lib/common.sh'; . '$TOP/tools/lib/packages.sh'
    packages_missing() { echo siege; }
    packages_family() { echo none; }
    packages_none() { echo 'no such package'; return 1; }
    packages_install siege"
  exits 77 "not installable from the distribution's packages: siege"
}

@test "every row of the table of packages has a role, a probe and both names" {
  run bash -c ". '$TOP/tools/lib/packages.sh'; packages_table | awk -F '  +' 'NF != 4 { print; bad = 1 } END { exit bad || !NR }'"
  exits 0 ""
}

@test "packages have names in both families, and no package is in two rows" {
  run bash -c ". '$TOP/tools/lib/common.sh'; . '$TOP/tools/lib/packages.sh'
    packages_names apt apxs cgroup siege; packages_names dnf apxs cgroup siege"
  exits 0 $'apache2-dev\nlibcgroup-dev\nsiege\nhttpd-devel\nlibcgroup-devel\nsiege'
  run bash -c ". '$TOP/tools/lib/common.sh'; . '$TOP/tools/lib/packages.sh'
    packages_apt() { echo asked the package manager; }
    packages_install make"
  exits 0 ""
  [ -z "$output" ]
}

@test "a signal within a command substitution ends a tool with the signal's status, after its cleanup" {
  local n signal status
  # shellcheck disable=SC2016  # expanded there
  echo '. "$1/tools/lib/common.sh"; cleanup() { echo cleaned; }; on_exit cleanup; say() { echo "$1"; }
    echo began; while :; do x="$(say a) $(say "$(say b)")"; done' >"$BATS_TEST_TMPDIR/tool"
  for n in {1..8}; do
    signal=INT
    ((n % 2)) || signal=TERM
    rm -f "$BATS_TEST_TMPDIR/out"
    env --default-signal=INT bash "$BATS_TEST_TMPDIR/tool" "$TOP" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    tool=$!
    wait_until 10 grep -q began "$BATS_TEST_TMPDIR/out"
    sleep "0.0$((n % 5 + 1))"
    wait_until 10 signalled_once_more "$signal" "$tool"
    status=0
    wait "$tool" || status=$?
    echo "$n: $signal, status $status, $(xargs <"$BATS_TEST_TMPDIR/out")"
    [ "$status $(xargs <"$BATS_TEST_TMPDIR/out")" = "$([[ $signal == INT ]] && echo 130 || echo 143) began cleaned" ]
  done
}
teardown() { [[ -z ${tool-} ]] || kill -KILL "$tool" 2>/dev/null || :; }
signalled_once_more() { kill "-$1" "$2" 2>/dev/null || :; gone "$2"; }  # bash loses one of a hundred
