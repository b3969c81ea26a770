#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Errors: limits that this kernel cannot enforce, and shared state that cannot be used. The
# message is clear, and VhostLimitOnError decides.

load lib/live
load lib/control

# Runs Apache in another mount namespace: with_cgroups 'COMMANDS' runs the commands in it
# before Apache. If a group is given, it is Apache's root of cgroups.
with_cgroups() { # <shell commands> [<v2 group's directory>]
  local real enter='' view=-m
  real=$(httpd_program)
  [[ -z ${2-} ]] || { enter="echo \$\$ >$2/cgroup.procs" view=-mC; }
  cat >"$BATS_TEST_TMPDIR/httpd" <<END
#!/bin/sh
$enter
exec unshare $view sh -c '$1
exec $real "\$@"' httpd "\$@"
END
  chmod 755 "$BATS_TEST_TMPDIR/httpd"
  httpd_program() { echo "$BATS_TEST_TMPDIR/httpd"; }
}

# shellcheck disable=SC2016  # for the other shell
read_only='for dir in $(grep -oE "/sys/fs/cgroup[^ ]*" /proc/self/mounts); do mount -o remount,bind,ro $dir; done'

# A hierarchy may be mounted more than once in the same place.
unmount() { # <v1 controller, or nothing for all of v1>: commands
  awk -v controller="$1" '$3 == "cgroup" && (controller == "" || "," $4 "," ~ "," controller ",") {
    printf "umount -l %s; ", $2 }' /proc/self/mounts
}

# Checks the output of httpd -t; the log of a start has the same words.
test_says() { # <exit status> <regular expression>
  try "$(httpd_program)" -t -f "$HTTPD_ROOT/httpd.conf"
  is "$status" "$1" "exit status of httpd -t"
  like "$output" "$2"
}

# The server does not start, and the configuration test fails with the same words.
start_fails() { # <what the log says>
  [[ $EUID != 0 ]] || test_says 1 "$1"
  start_fails_alone "$1"
}

start_fails_alone() { # <what the log says>
  try "$(httpd_program)" -f "$HTTPD_ROOT/httpd.conf" -k start
  wait_until 10 error_log_has "$1"
  wait_until 10 not_up
}

not_up() { ! httpd_up; }

configure_new() {
  mkdir -p "$HTTPD_ROOT"
  configure_httpd "$@"
}

export LOG_MAY_SAY='VL0020'

@test "closed: a limit without its controller stops the start and fails the configuration test" {
  local why='VL0020: site a\.test: .*the memory controller is missing: VhostLimitCgroup off\. The server does not start'
  configure_new 'VhostLimit On' 'VhostLimitCgroup off' 'VhostLimitOnError closed' -v 'a VhostLimitMemory 64M'
  start_fails "$why"
  configure_new 'VhostLimit On' 'VhostLimitCgroup off' 'VhostLimitOnError closed' -v 'b VhostLimitCPU 20%'
  start_fails 'VL0020: site b\.test: .*the cpu controller is missing: VhostLimitCgroup off'
}

@test "open, the default: the log and the configuration test warn about each site, and the server starts" {
  local limits=(-v 'a VhostLimitMemory 64M' -v 'b VhostLimitProcesses 5') value
  for value in '' 'VhostLimitOnError open'; do
    start_httpd 'VhostLimit On' 'VhostLimitCgroup off' "$value" "${limits[@]}"
    is "$(error_log | grep -c 'vhostlimit:warn.*VL0020.*The site is served without that limit')" 2 "warnings"
    is "$(get a /) $(get b /)" '200 200'
    [[ $EUID != 0 ]] || test_says 0 'VL0020: site a\.test.*VL0020: site b\.test.*Syntax OK'
    end_server
  done
}

@test "the status shows limits that the kernel does not enforce, at start and after a change" {
  local why='the memory controller is missing: VhostLimitCgroup off'
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off' -v 'a VhostLimitMemory 64M'
  is "$(status_json | jq -c '[.unenforced, (.vhosts[] | select(.unenforced != "") | .name, .unenforced)]')" "[1,\"a.test\",\"$why\"]"
  is "$(status_of a unenforced)" "$why"
  get status '/vhostlimit?prometheus' >/dev/null
  like "$(answer_body)" $'\nvhostlimit_vhosts_unenforced 1\n'
  is "$(ask 'set\tb.test\tcpu=50%\n' | jq -r '.vhosts[0].unenforced')" 'the cpu controller is missing: VhostLimitCgroup off'
  error_log_has 'VL0031: site b\.test: limits changed .* the kernel does not enforce all of them: the cpu controller'
  is "$(status_json | jq .unenforced)" 2
}

@test "the log names ten sites whose limits cannot be enforced, and counts the others" {
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off' 'VhostLimitProcesses 50' -o 'a b c d e f g h i j k'
  is "$(error_log | grep -c VL0020)" 10 "sites named"
  error_log_has 'VL0025: limits of 2 more sites cannot be enforced'
}

@test "closed: a limit without its controller does not stop a restart, and is logged as an error" {
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off' 'VhostLimitOnError closed'
  configure_httpd 'VhostLimit On' 'VhostLimitCgroup off' 'VhostLimitOnError closed' -v 'a VhostLimitMemory 64M'
  restart_by_signal
  error_log_has 'vhostlimit:error.*VL0020: site a\.test: .*The site is served without that limit'
  is "$(get a /)" 200
}
# "httpd -k graceful" tests the configuration first, and closed is an error there.
restart_by_signal() {
  local before
  before=$(starts_logged)
  kill -USR1 "$(httpd_pid)"
  wait_until 15 restarted_since "$before"
}

@test "limits of a vhost that is Off or DryRun need no controller" {
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off' -v 'a VhostLimit Off' -v 'a VhostLimitMemory 64M' \
    -v 'b VhostLimit DryRun' -v 'b VhostLimitProcesses 3'
  is "$(error_log | grep -c VL0020)" 0 "complaints"
}

@test "a tree that cannot be created: the reason is on the status page and in each error" {
  start_httpd 'VhostLimit On' 'VhostLimitCgroup /cgroup.procs/x'
  like "$(status_json | jq -r .cgroup.reason)" 'group /cgroup\.procs/x cannot be made: Not a directory'
  stop_httpd
  configure_httpd 'VhostLimit On' 'VhostLimitCgroup /cgroup.procs/x' 'VhostLimitOnError closed' -v 'a VhostLimitProcesses 5'
  start_fails 'the pids controller is missing: group /cgroup\.procs/x cannot be made'
}

# A program of a is in its group, and so is a thread of Apache.
leaves_its_tree_for() { # <VhostLimitCgroup>
  start_httpd 'VhostLimit On'
  hold_request busy
  configure_httpd 'VhostLimit On' "VhostLimitCgroup $1"
  graceful_httpd
  cgroup_exists "$(httpd_cgroup)"
  is "$(get a /cgi/nap.sh)" 200
  release_request busy
}

@test "a restart leaves a tree for one that cannot be created: the old tree is removed with its last member" {
  requires cgroups
  leaves_its_tree_for /cgroup.procs/x
  is "$(status_json | jq -r .cgroup.backend)" off
  wait_until 20 gone "$(holder_of busy)"
  graceful_httpd
  wait_until 10 cgroup_gone "$(httpd_cgroup)"
}

@test "a restart leaves a tree for one at another path: the old groups are removed, at the latest at the end" {
  requires cgroups
  leaves_its_tree_for "$(httpd_cgroup)/deeper"
  cgroup_exists "$(httpd_cgroup)/deeper/a.test"
  wait_until 20 gone "$(holder_of busy)"
  graceful_httpd
  wait_until 10 cgroup_gone "$(httpd_cgroup)/a.test"
  is "$(get a /cgi/nap.sh)" 200
}

@test "a read-only tree: Apache serves and logs it" {
  requires cgroups
  mkdir -p "$HTTPD_ROOT"
  with_cgroups "$read_only"
  start_httpd 'VhostLimit On'
  is "$(status_json | jq -r .cgroup.backend)" off
  error_log_has 'VL0010.*cannot be made: Read-only file system'
  is "$(get a /)" 200
}

@test "no hierarchy mounted: Apache serves and reports the reason" {
  requires cgroups
  mkdir -p "$HTTPD_ROOT"
  with_cgroups 'umount -R -l /sys/fs/cgroup'
  start_httpd 'VhostLimit On'
  is "$(status_json | jq -r .cgroup.backend)" off
  isnt "$(status_json | jq -r .cgroup.reason)" ''
  is "$(get a /cgi/nap.sh)" 200
}

@test "a controller that is not mounted is named in the error" {
  requires cgroups memory
  local away
  away=$(unmount memory)
  [[ -n $away ]] || skip "memory is not a hierarchy of its own here"
  mkdir -p "$HTTPD_ROOT"
  with_cgroups "$away"
  configure_new 'VhostLimit On' 'VhostLimitOnError closed' -v 'a VhostLimitMemory 64M'
  start_fails 'the memory controller is missing: it is not mounted'
  configure_new 'VhostLimit On' -v 'a VhostLimitProcesses 50'
  launch_httpd
  is "$(get a /cgi/nap.sh)" 200
}

@test "no cpu controller: Apache serves without weights in the kernel and logs it" {
  requires cgroups cpu
  local away why='it is not mounted' said='no CPU shares: it is not mounted'
  away=$(unmount cpu)
  [[ -n $away ]] || skip "cpu is not a hierarchy of its own here"
  if ! grep -q ' cgroup2 ' /proc/self/mounts; then
    why='no cgroup hierarchy with the cpu controller, and no v2 tree, is mounted' said=$why
  fi
  mkdir -p "$HTTPD_ROOT"
  with_cgroups "$away"
  start_httpd 'VhostLimit On' -v 'a VhostLimitWeight 200'
  error_log_has "VL0010.*$said"
  is "$(get a /cgi/nap.sh)" 200
  stop_httpd
  configure_httpd 'VhostLimit On' 'VhostLimitOnError closed' -v 'a VhostLimitCPU 20%'
  start_fails "the cpu controller is missing: $why"
}

# Shows Apache a v2 tree without controllers, as in some containers: the tree of this
# machine if v1 has the controllers, else a group that delegates none.
see_no_controllers() {
  if [[ $(cgroup_cpu_root) == /sys/fs/cgroup ]]; then
    mkdir -p "/sys/fs/cgroup/bare-${VL_TEST_ID:-$$}/root"
    with_cgroups 'umount -l /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup' "/sys/fs/cgroup/bare-${VL_TEST_ID:-$$}/root"
  else
    with_cgroups "$(unmount '')"
  fi
}

@test "controllers that are not delegated: Apache serves and logs it, and a limit stops the start" {
  requires cgroups
  grep -q ' cgroup2 ' /proc/self/mounts || skip "no v2 tree here"
  mkdir -p "$HTTPD_ROOT"
  see_no_controllers
  start_httpd 'VhostLimit On' -v 'a VhostLimitWeight 200'
  error_log_has 'VL0010.*no CPU shares: it is not delegated to /'
  is "$(status_json | jq -r .cgroup.backend) $(get a /cgi/nap.sh)" 'v2 200'
  stop_httpd
  local limit controller name value
  for limit in 'memory Memory 64M' 'pids Processes 20' 'io IO 1M' 'cpu CPU 20%'; do
    read -r controller name value <<<"$limit"
    configure_httpd 'VhostLimit On' 'VhostLimitOnError closed' -v "b VhostLimit$name $value"
    start_fails "VL0020: site b\\.test: .*the $controller controller is missing: it is not delegated to /"
    : >"$HTTPD_ROOT/logs/error.log"
  done
  if cgroup_exists "/bare-${VL_TEST_ID:-$$}"; then
    is "$(find "/sys/fs/cgroup/bare-${VL_TEST_ID:-$$}" -mindepth 2 -type d)" '' "groups that are left"
    rmdir "/sys/fs/cgroup/bare-${VL_TEST_ID:-$$}/root" "/sys/fs/cgroup/bare-${VL_TEST_ID:-$$}"
  fi
}

@test "groups removed while Apache runs: CGI programs run, and a restart creates the groups again" {
  requires cgroups
  start_httpd 'VhostLimit On'
  cgroup_remove "$(httpd_cgroup)/a.test"
  cgroup_remove "$(httpd_cgroup)/.server/a.test"
  cgroup_gone "$(httpd_cgroup)/a.test"
  is "$(get a /cgi/nap.sh) $(get a /page.html)" '200 200'
  graceful_httpd
  cgroup_exists "$(httpd_cgroup)/a.test"
}

# bats test_tags=v2
@test "v2: processes in the parent group prevent controllers, and the error names the group" {
  requires cgroups
  [[ $(cgroup_cpu_root) == /sys/fs/cgroup ]] || skip "no pure v2 here"
  local squatter
  mkdir "/sys/fs/cgroup/squat-${VL_TEST_ID:-$$}"
  (exec sleep 60) 3>&- 4>&- &
  squatter=$!
  echo "$squatter" >"/sys/fs/cgroup/squat-${VL_TEST_ID:-$$}/cgroup.procs"
  configure_new 'VhostLimit On' 'VhostLimitOnError closed' "VhostLimitCgroup /squat-${VL_TEST_ID:-$$}/tree" -v 'a VhostLimitProcesses 50'
  start_fails_alone "the pids controller is missing: it cannot be enabled in /squat-${VL_TEST_ID:-$$}: there are processes in that group itself"
  kill "$squatter"
  wait_until 20 gone "$squatter"
  rmdir "/sys/fs/cgroup/squat-${VL_TEST_ID:-$$}"
}

# ---- a child process that cannot use the shared memory -----------------------

start_without_lock() { # <as start_httpd>...
  export NO_LOCK=$BATS_TEST_TMPDIR/no_lock
  start_preloaded fail_lock "$@"
  wait_until 10 both_children_count
  touch "$NO_LOCK"
}

both_children_count() { (($(status_json | jq .children) >= 2)); }

need_cc() { need_program cc; }

@test "a request that cannot be counted is served" {
  requires cc
  stay_engaged  # a dormant server counts without the lock
  start_without_lock 'VhostLimit On' 'VhostLimitCgroup off' 'LogLevel vhostlimit:debug'
  is "$(get a /)" 200
  error_log_has VL0007
  rm "$NO_LOCK"
}

# A stream takes the lock to ask for a slot, and again to wait for one.
@test "a request that should wait and cannot be counted is served" {
  requires cc event mod_http2 curl_http2
  start_without_lock -l http2 'Protocols h2c http/1.1' 'VhostLimit On' 'VhostLimitCgroup off' 'VhostLimitQueue 10 5s' \
    'LogLevel vhostlimit:debug' -v 'a VhostLimitConcurrency 1'
  rm "$NO_LOCK"
  hold_request one a
  printf 1 >"$NO_LOCK"
  is "$(get a / --http2-prior-knowledge)" 200
  error_log_has VL0007
  rm "$NO_LOCK"
  release_request one
  settles a running 0
}

@test "VhostLimitOnError closed refuses requests that cannot be counted, until they can be" {
  requires cc
  stay_engaged
  start_without_lock 'VhostLimit On' 'VhostLimitCgroup off' 'VhostLimitOnError closed' 'VhostLimitStatusCode 429' \
    -v 'c VhostLimit Off'
  is "$(get a /) $(get c /)" '429 200'
  rm "$NO_LOCK"
  is "$(get a /)" 200
  wait_until 20 grep -q 'action=refused reason=error' "$HTTPD_ROOT/logs/access.log"
}
