#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Attempts of a site's program to get out of its sandbox. Each attempt succeeds without a
# sandbox, unless the kernel refuses it to every unprivileged process.

load lib/live
load lib/sandbox

export ONE_SERVER=yes
# Not below /tmp, which programs in Files may write to.
HTTPD_ROOT=/run/vl-sandbox-escape
# A folder with a socket that the sites e and h may connect to.
NAMED=/run/vl-sandbox-named

setup() { requires root landlock userns seccomp; }

setup_file() {
  { need_root && need_landlock && need_userns && need_seccomp; } >/dev/null || return 0
  install -d -o "$(httpd_user)" "$NAMED"
  start_httpd 'VhostLimit On' "$PROGRAMS" -v 'a VhostLimitSandbox Full' -v 'b VhostLimitSandbox Files' -o 'a b c d e f g h i' \
    -v 'e VhostLimitSandbox Full' -v "e VhostLimitSandboxConnect $(httpd_port) $NAMED" \
    -v 'f VhostLimitSandbox Files' -v "f VhostLimitSandboxConnect $(httpd_port) udp" \
    -v 'g VhostLimitSandbox Files' -v 'g VhostLimitSandboxConnect none' \
    -v 'h VhostLimitSandbox Files' -v "h VhostLimitSandboxConnect $NAMED" \
    -v 'i VhostLimitSandbox Full' -v 'i VhostLimitSandboxConnect none'
  local site
  sandbox_compile escape.cgi "$TOP/t/lib/escape.c" -lrt
  for site in a b c e f g h i; do
    cp "$BATS_FILE_TMPDIR/escape.cgi" "$HTTPD_ROOT/htdocs/$site/"
    install -m 4755 "$BATS_FILE_TMPDIR/escape.cgi" "$HTTPD_ROOT/htdocs/$site/setuid-copy"
    chown "$(httpd_user)" "$HTTPD_ROOT/htdocs/$site"
  done
  echo secret >"$HTTPD_ROOT/htdocs/d/secret"
  chown -R "$(httpd_user)" "$HTTPD_ROOT/htdocs/d"
  start_victim
}

teardown_file() {
  [[ -e $HTTPD_ROOT ]] || return 0
  [[ ! -e $BATS_FILE_TMPDIR/victim ]] || kill "$(<"$BATS_FILE_TMPDIR/victim")"
  rm -rf /dev/shm/vl-victim "$NAMED"
  end_server && rm -rf "$HTTPD_ROOT"
}

# Another process of the server's user, as the program of another site would be.
start_victim() {
  local ready=$BATS_FILE_TMPDIR/ready
  mkdir -m 777 "$ready"
  cp "$BATS_FILE_TMPDIR/escape.cgi" "$BATS_FILE_TMPDIR/vl-victim"
  SECRET=1 setpriv --reuid "$(httpd_user)" --regid "$(id -g "$(httpd_user)")" --clear-groups \
    "$BATS_FILE_TMPDIR/vl-victim" "$ready" "$NAMED" 3>&- >"$ready.log" 2>&1 &
  echo $! >"$BATS_FILE_TMPDIR/victim"
  wait_until 10 test -e "$ready/done"
}

attempt() { run_program "$1" "escape.cgi?$2" ; }  # <vhost> <attempt=argument>

# Sites: a has Full, b has Files, i has Full and may connect to nothing, c has no sandbox. What no
# unprivileged process may do is refused there too. Landlock knows signals and abstract sockets since Linux 6.12.
# shellcheck disable=SC2030,SC2031  # expect() shares the variables of the test
@test "attempts: refused in Full, and in Files where docs/threat-model.md says so" {
  local victim documents=$HTTPD_ROOT/htdocs/d name argument full files off failed='' scoped=refused
  victim=$(<"$BATS_FILE_TMPDIR/victim")
  (($(landlock_abi) >= 6)) || scoped=escaped
  while read -r name argument full files off; do
    expect a "$full"; expect b "$files"; expect c "$off"; expect i refused
  done <<END
read $documents/secret refused refused escaped
write $documents/secret refused refused escaped
climb $documents/secret refused refused escaped
root $victim$documents/secret refused refused escaped
symlink $documents/secret refused refused escaped
link $documents/secret refused refused escaped
rename $documents/secret refused refused escaped
see $victim refused escaped escaped
stat $documents/secret refused escaped escaped
environ $victim refused refused escaped
memory $victim refused refused escaped
kill $victim refused $scoped escaped
ptrace $victim refused refused escaped
limits $victim refused refused escaped
priority $victim refused refused escaped
affinity $victim refused refused escaped
scheduler $victim refused refused escaped
setns $victim refused refused escaped
abstract vl-victim $scoped $scoped escaped
socket $BATS_FILE_TMPDIR/ready/socket refused escaped escaped
read $BATS_FILE_TMPDIR/ready/tmp refused escaped escaped
sysv 47110815 refused escaped escaped
posix /vl-victim refused refused escaped
queue /vl-victim refused refused escaped
userns - refused refused escaped
setuid ./setuid-copy refused refused escaped
make-setuid - refused refused escaped
core - refused refused escaped
cgroup - refused refused escaped
handle - refused refused escaped
io_uring - refused refused escaped
keys - refused refused escaped
descriptors - refused refused refused
mount - refused refused refused
raw - refused refused refused
mknod - refused refused refused
system /etc/vl-escape refused refused refused
system /usr/bin/vl-escape refused refused refused
END
  is "$failed" ''
}
# shellcheck disable=SC2031
expect() { # <vhost> <refused or escaped>
  local got
  got=$(attempt "$1" "$name=$argument")
  [[ $got == "$2"* ]] || failed+=$'\n'"$name $argument in $1: want $2, got $got"
}

# Sites: e has Full and names a port and a folder of sockets, f has Files and names a port and UDP,
# g has Files and names nothing, h has Files and names a folder of sockets, i has Full and names nothing,
# c has no sandbox.  Landlock knows ports since Linux 6.7, Unix sockets by path since 7.1.
# shellcheck disable=SC2030,SC2031  # expect() shares the variables of the test
@test "VhostLimitSandboxConnect: programs connect to what the list names, and to nothing else" {
  local ports tcp udp own name argument in_e in_f in_g in_h off failed='' by_port=refused by_path=refused scoped=refused
  (($(landlock_abi) >= 4)) || by_port=escaped
  (($(landlock_abi) >= 6)) || scoped=escaped
  (($(landlock_abi) >= 9)) || by_path=escaped
  ports=$(<"$BATS_FILE_TMPDIR/ready/ports") own=$(httpd_port)
  read -r tcp udp <<<"$ports"
  while read -r name argument in_e in_f in_g in_h off; do
    expect e "$in_e"; expect f "$in_f"; expect g "$in_g"; expect h "$in_h"; expect i refused; expect c "$off"
  done <<END
tcp $tcp $by_port $by_port refused refused escaped
tcp $own escaped escaped refused refused escaped
mapped $tcp $by_port $by_port refused refused escaped
wide $tcp refused refused refused refused escaped
wide $own refused refused refused refused escaped
mptcp $tcp refused refused refused refused escaped
fast-open $tcp refused refused refused refused escaped
fast-open-message $tcp refused refused refused refused escaped
fast-open-many $tcp refused refused refused refused escaped
old-calls $tcp refused refused refused refused escaped
listen 0 $by_port $by_port refused refused escaped
udp $udp refused escaped refused refused escaped
socket $BATS_FILE_TMPDIR/ready/socket refused refused refused $by_path escaped
datagram $BATS_FILE_TMPDIR/ready/datagram refused refused refused $by_path escaped
socket $NAMED/socket escaped refused refused escaped escaped
abstract vl-victim $scoped refused refused $scoped escaped
raw - refused refused refused refused refused
END
  is "$failed" ''
}

@test "a program that crashes leaves no core file, and its site's status is that of the crash" {
  site_program a crash.sh <<<'ulimit -c unlimited; sh -c "kill -SEGV \$\$"; echo "status $?"; ls'
  local out
  out=$(run_program a crash.sh)
  like "$out" 'status 139'
  is "$(grep -c '^core' <<<"$out")" 0 "core files"
}

@test "processes of a site see each other, and one that goes on after the request ends with the server" {
  site_program a stay.sh <<<'nohup sleep 1000 >/dev/null 2>&1 </dev/null & echo started'
  site_program a list.sh <<<'ps -e -o args='
  is "$(run_program a stay.sh)" started
  like "$(run_program a list.sh)" 'sleep 1000'
}
