#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Weights and limits: they are written to the kernel's files, follow the configuration, and
# apply to back ends.

load lib/live
load lib/fault

setup() { requires cgroups cpu; }

group_of() { printf '%s/%s.test\n' "$(httpd_cgroup)" "$1"; }  # <vhost>

# The CPU weight 100 is 1024 shares in v1 and weight 100 in v2.
has_weight() { # <vhost> <weight>
  case $(cgroup_value "$(group_of "$1")" cpu.weight cpu.shares) in
    "$2" | "$(($2 * 1024 / 100))") ;;
    *) fail "weight of $1 is not $2: $(cgroup_value "$(group_of "$1")" cpu.weight cpu.shares)" ;;
  esac
}

has_quota() { # <vhost> <us, or none>
  local got
  got=$(cgroup_value "$(group_of "$1")" cpu.max cpu.cfs_quota_us)
  [[ $2 == none ]] && { like "$got" '^(max 100000|-1)$' "quota of $1"; return; }
  like "$got" "^$2( 100000)?\$" "quota of $1"
}

has_memory() { is "$(cgroup_value "$(group_of "$1")" memory.max memory.limit_in_bytes)" "$2" "memory of $1"; }
has_pids()   { is "$(cgroup_value "$(group_of "$1")" pids.max)" "$2" "processes of $1"; }

# Passes if the controller has no such group, or its group has no limit.
has_no_memory() { # <vhost>
  local got
  got=$(cgroup_value "$(group_of "$1")" memory.max memory.limit_in_bytes 2>/dev/null) || return 0
  [[ $got == max ]] || at_least "$got" 9000000000000000000 "memory of $1"
}

# A PHP-FPM of the test, with one master in each vhost's group.
start_fpm() { # <vhost> [elsewhere]
  local root=$HTTPD_ROOT/fpm-$1 user
  user=$(httpd_user)
  mkdir -p "$root"
  printf '%s\n' '[global]' "pid = $root/pid" "error_log = $root/log" 'daemonize = yes' \
    '[www]' "user = $user" "group = $(id -gn "$user")" "listen = $root/socket" "listen.owner = $user" \
    'pm = static' 'pm.max_children = 1' >"$root/conf"
  (in_cgroup "$([[ ${2-} == elsewhere ]] || group_of "$1")" "$(php_fpm_program)" -n -y "$root/conf") 3>&- 4>&- </dev/null >"$root/out" 2>&1
  wait_until 10 test -S "$root/socket"
}

stop_fpm() { # <vhost>
  local pid
  pid=$(<"$HTTPD_ROOT/fpm-$1/pid") || return 0
  kill "$pid"
  wait_until 10 gone "$pid"
}

php_in() { # <vhost>   prints the line that sends its PHP pages to its master
  printf '%s <FilesMatch "\.php$">\nSetHandler "proxy:unix:%s|fcgi://%s/"\n</FilesMatch>\n' \
    "$1" "$HTTPD_ROOT/fpm-$1/socket" "$1"
}

# bats test_tags=v2
@test "weights and limits are written to the kernel's files" {
  requires memory pids
  start_httpd 'VhostLimit On' -v 'a VhostLimitWeight 250' -v 'a VhostLimitCPU 25%' \
    -v 'a VhostLimitMemory 64M' -v 'a VhostLimitProcesses 20'
  has_weight a 250
  has_quota a 25000
  has_memory a 67108864
  has_pids a 20
  has_weight b 100
  has_quota b none
  has_no_memory b
}

@test "VhostLimitIO is set for reading and writing, for each disk" {
  requires io
  local got disks
  start_httpd 'VhostLimit On' -v 'a VhostLimitIO 10M'
  disks=$(cat /sys/block/[!lrz]*/dev 2>/dev/null | wc -l)
  at_least "$disks" 1 "disks"
  got=$(cgroup_value "$(group_of a)" io.max blkio.throttle.read_bps_device)
  is "$(grep -cE ' (rbps=)?10485760' <<<"$got")" "$disks" "disks limited for reading"
  got=$(cgroup_value "$(group_of a)" io.max blkio.throttle.write_bps_device)
  is "$(grep -cE ' (.*wbps=)?10485760' <<<"$got")" "$disks" "disks limited for writing"
}

@test "VhostLimitIO slows down writes of its vhost's programs only" {
  requires io
  start_httpd 'VhostLimit On' -v 'a VhostLimitIO 1M'
  is "$(get b /cgi/write.sh)" 200
  local slow quick
  quick=$(answer_body)
  [[ $quick != no* ]] || skip "$quick"
  is "$(get a /cgi/write.sh)" 200
  slow=$(answer_body)
  at_least "$slow" 2000 "ms for 3 MB"
  at_least "$slow" "$quick" "ms, and as long as the others'"
}

@test "a value at server level applies to each vhost, and a vhost can override it" {
  requires pids
  start_httpd 'VhostLimit On' 'VhostLimitCPU 50%' 'VhostLimitProcesses 30' \
    -v 'b VhostLimitCPU none' -v 'b VhostLimitProcesses none'
  has_quota a 50000
  has_pids a 30
  has_quota b none
  has_pids b max
}

@test "DryRun sets no weight and no limit" {
  start_httpd 'VhostLimit On' -v 'a VhostLimit DryRun' -v 'a VhostLimitWeight 300' -v 'a VhostLimitCPU 10%'
  has_weight a 100
  has_quota a none
}

@test "a graceful restart changes weights and limits and removes deleted ones" {
  requires memory
  start_httpd 'VhostLimit On' -v 'a VhostLimitWeight 50' -v 'a VhostLimitCPU 25%' -v 'a VhostLimitMemory 64M'
  configure_httpd 'VhostLimit On' -v 'a VhostLimitWeight 400' -v 'a VhostLimitCPU 75%' -v 'a VhostLimitMemory 128M'
  graceful_httpd
  has_weight a 400
  has_quota a 75000
  has_memory a 134217728
  configure_httpd 'VhostLimit On'
  graceful_httpd
  has_weight a 100
  has_quota a none
  has_no_memory a
}

@test "the next server removes limits that a crashed server has set" {
  requires pids
  start_httpd 'VhostLimit On' -v 'a VhostLimitProcesses 20' -v 'a VhostLimitCPU 25%'
  crash_httpd
  configure_httpd 'VhostLimit On'
  launch_httpd
  has_pids a max
  has_quota a none
}

@test "the group of a removed vhost is removed in every hierarchy" {
  requires memory pids
  start_httpd 'VhostLimit On' 'VhostLimitMemory 64M' 'VhostLimitProcesses 20'
  local group
  group=$(group_of b)
  cgroup_exists "$group"
  configure_httpd 'VhostLimit On' 'VhostLimitMemory 64M' 'VhostLimitProcesses 20' -o 'a c'
  graceful_httpd
  wait_until 10 cgroup_gone "$group"
  cgroup_exists "$(group_of a)"
}

@test "a group with members is removed by the restart after they have ended" {
  start_httpd 'VhostLimit On'
  local group member
  group=$(group_of b)
  (in_cgroup "$group" sleep 60) 3>&- 4>&- &
  member=$!
  wait_until 20 grep -q "$group" "/proc/$member/cgroup"
  configure_httpd 'VhostLimit On' -o 'a c'
  graceful_httpd
  cgroup_exists "$group"
  kill "$member"
  wait_until 20 gone "$member"
  graceful_httpd
  wait_until 20 cgroup_gone "$group"
}

@test "Apache's processes are in the tree, and return to their old group" {
  local child
  start_httpd 'VhostLimit On'
  grep -q ":$(httpd_cgroup)/.server\$" "/proc/$(httpd_pid)/cgroup"
  for child in $(httpd_children); do grep -q ":$(httpd_cgroup)/.server\$" "/proc/$child/cgroup"; done
  configure_httpd 'VhostLimit On' 'VhostLimitCgroup off'
  graceful_httpd
  is "$(grep -c "$(httpd_cgroup)" "/proc/$(httpd_pid)/cgroup")" 0 "hierarchies in which it is in the tree"
}

@test "Apache's piped loggers enter and leave the tree with it" {
  local logger found=no
  start_httpd 'VhostLimit On' "CustomLog \"|/bin/cat\" \"%h\""
  for logger in $(<"/proc/$(httpd_pid)/task/$(httpd_pid)/children"); do
    grep -q ":$(httpd_cgroup)/.server\$" "/proc/$logger/cgroup"
    [[ $(<"/proc/$logger/comm") != cat ]] || found=yes
  done
  is "$found" yes "a program for the log"
  stop_httpd
  wait_until 20 cgroup_gone "$(httpd_cgroup)"
}

# The sleep is a descendant of Apache, not a child. Apache starts it before it enters the tree.
# bats test_tags=v2
@test "what the shell of a piped log has started enters and leaves the tree with Apache" {
  local logger started
  start_httpd 'VhostLimit On' "CustomLog \"|/bin/sh -c 'sleep 600 & cat; kill \$!'\" \"%h\""
  logger=$(logger_of "$(httpd_pid)")
  started=$(<"/proc/$logger/task/$logger/children")
  is "$(wc -w <<<"$started")" 2 "programs that the shell has started"
  for logger in $started; do like "$(<"/proc/$logger/cgroup")" ":$(httpd_cgroup)/\.server($|\s)"; done
  configure_httpd 'VhostLimit On' 'VhostLimitCgroup off' "CustomLog \"|/bin/sh -c 'sleep 600 & cat; kill \$!'\" \"%h\""
  graceful_httpd
  wait_until 20 cgroup_gone "$(httpd_cgroup)"
}
logger_of() { # <pid of Apache>
  local child
  for child in $(<"/proc/$1/task/$1/children"); do [[ $(<"/proc/$child/comm") != sh ]] || echo "$child"; done
}

# So is what Passenger leaves for a few seconds.
# bats test_tags=v2
@test "a process of Apache's group whose parent has ended leaves the tree at Apache's end" {
  local orphan
  start_httpd 'VhostLimit On'
  (in_cgroup "$(httpd_cgroup)/.server" sleep 600) 3>&- 4>&- &
  orphan=$!
  wait_until 20 grep -q "$(httpd_cgroup)/.server" "/proc/$orphan/cgroup"
  stop_httpd
  wait_until 20 cgroup_gone "$(httpd_cgroup)"
  is "$(grep -c "$(httpd_cgroup)" "/proc/$orphan/cgroup")" 0 "hierarchies in which it is in the tree"
  kill "$orphan"
}

# bats test_tags=v2
@test "the next server removes a group that had members at the end, of a site that is gone" {
  local group member
  start_httpd 'VhostLimit On'
  group=$(group_of b)
  (in_cgroup "$group" sleep 600) 3>&- 4>&- &
  member=$!
  wait_until 20 grep -q "$group" "/proc/$member/cgroup"
  stop_httpd
  cgroup_exists "$group"
  kill "$member"
  wait_until 20 gone "$member"
  configure_httpd 'VhostLimit On' -o 'a c'
  launch_httpd
  wait_until 20 cgroup_gone "$group"
  cgroup_exists "$(group_of a)"
}

@test "a new VhostLimitCgroup path moves all processes and removes the old tree" {
  local path old
  path=$(httpd_cgroup)
  start_httpd 'VhostLimit On'
  mapfile -t old < <(httpd_children)
  begin_request slow a /big.bin --limit-rate 2M
  wait_until 20 test -s "$HTTPD_ROOT/hold/slow.body"
  configure_httpd 'VhostLimit On' "VhostLimitCgroup $path-new"
  graceful_httpd
  ! gone "${old[0]}" || ! gone "${old[1]}" || fail "no child of the old generation is left"
  cgroup_gone "$path"
  grep -q ":$path-new/.server\$" "/proc/$(httpd_pid)/cgroup"
  stop_httpd
  wait_until 20 cgroup_gone "$path-new"
}

# Prints in how many hierarchies the controllers are: 1 if cpu and cpuacct are together, 1
# in v2.
hierarchies_of() { # <controller>...
  awk -F: -v names="$(IFS='|'; echo "$*")" '"," $2 "," ~ ",(" names ")," { n++ } END { print n ? n : 1 }' /proc/self/cgroup
}

@test "a CGI program runs in its vhost's group, in each hierarchy that limits it" {
  requires memory
  start_httpd 'VhostLimit On' -v 'a VhostLimitMemory 256M' -v 'c VhostLimit DryRun'
  is "$(get a /cgi/where.sh)" 200
  at_least "$(answer_body | grep -cE ":$(group_of a)\$")" "$(hierarchies_of cpu cpuacct memory)" "hierarchies in which it is a's"
  is "$(get b /cgi/where.sh)" 200
  like "$(answer_body)" "$(group_of b)"
  is "$(get c /cgi/where.sh)" 200
  is "$(answer_body | grep -c "$(group_of c)")" 0 "hierarchies that DryRun's is placed in"
  is "$(get status /cgi/where.sh)" 200
  is "$(answer_body | grep -cE "$(httpd_cgroup)/[^.]")" 0 "hierarchies that a vhost's that is Off is placed in"
}

@test "a CGI program of an exempt request is not in the group of the process's last vhost" {
  start_httpd -m prefork -t 'ServerLimit 1' -t 'MaxRequestWorkers 1' 'VhostLimit On' \
    -v 'b VhostLimitExempt "true"' -v 'a ErrorDocument 400 /cgi/where.sh'
  is "$(get a /cgi/where.sh)" 200
  like "$(answer_body)" "$(group_of a)"
  is "$(get b /cgi/where.sh)" 200
  is "$(answer_body | grep -cE "$(httpd_cgroup)/[^.]")" 0 "hierarchies in which an exempt one is in a group"
  is "$(get a /cgi/where.sh)" 200
  packets 'GET /page.html HTTP/1.1\r\nHost: a.test/x\r\n\r\n' >"$BATS_TEST_TMPDIR/answer"
  like "$(<"$BATS_TEST_TMPDIR/answer")" '^HTTP/1.1 400 .*:/'
  like "$(<"$BATS_TEST_TMPDIR/answer")" "$(group_of a)" "an error document of a request that could not be read"
}

used() { (($(status_of "$1" backend_us) >= $2)); }      # <vhost> <us>

@test "mod_cgi under a threaded MPM: CPU time of a program is charged to its vhost" {
  start_httpd 'VhostLimit On'
  is "$(get a /cgi/burn.sh) $(get a /cgi/burn.sh)" '200 200'
  wait_until 10 used a 250000
  is "$(status_of b backend_us) $(status_json | jq -r .cgroup.outside)" '0 '
  settles a cost processes
  is "$(error_log | grep -c VL0023)" 0 "notices"
}

@test "prefork: the CPU time of a mod_cgi program is charged to its vhost" {
  requires prefork
  charged() { (($(status_of a charged_us) >= 100000)); }
  start_httpd -m prefork 'VhostLimit On'
  is "$(get a /cgi/burn.sh)" 200
  wait_until 10 charged
}

start_with_cgid() { # <as start_httpd>...
  BASE_MODULES=${BASE_MODULES/ cgi/ cgid} start_httpd "$@" "ScriptSock $BATS_TEST_TMPDIR/cgisock"
}

@test "mod_cgid: the log and the status say that its programs are in no site's group" {
  requires mod_cgid
  start_with_cgid 'VhostLimit On'
  error_log_has 'vhostlimit:notice.*VL0023: programs of mod_cgid run in no site.s cgroup.*Load mod_cgi instead'
  is "$(get a /cgi/where.sh)" 200
  is "$(answer_body | grep -cE "$(httpd_cgroup)/[^.]")" 0 "hierarchies in which it is in a vhost's group"
  is "$(get a /cgi/burn.sh)" 200
  settles a cost processes
  wait_until 10 used a 100000
  is "$(status_json | jq -r .cgroup.outside)" mod_cgid
}

@test "mod_cgid is not reported if cgroups are off" {
  requires mod_cgid
  start_with_cgid 'VhostLimit On' 'VhostLimitCgroup off'
  is "$(error_log | grep -c VL0023) $(status_json | jq -r .cgroup.outside)" '0 '
}

@test "earlier memory kills are not reported after a start, and a burst is reported once" {
  requires memory php_fpm mod_proxy_fcgi
  stay_engaged  # a dormant server reads the kernel's counts every ten seconds only
  eat() { get a /eat.php >/dev/null; }
  killed() { (($(status_of a memory_kills) >= $1)); }
  start_httpd -l proxy -l proxy_fcgi 'VhostLimit On' 'LogLevel proxy_fcgi:crit' -v 'a VhostLimitMemory 64M' -v "$(php_in a)"
  cat >"$HTTPD_ROOT/htdocs/a/eat.php" <<'END'
<?php ini_set('memory_limit', -1); echo strlen(str_repeat('x', 200 << 20));
END
  start_fpm a
  eat
  wait_until 10 killed 1
  eat; eat
  wait_until 10 killed 3
  at_most "$(grep -c VL0022 "$HTTPD_ROOT/logs/error.log")" 2 "lines in the log"
  stop_httpd
  launch_httpd
  is "$(get a /page.html) $(status_of a memory_kills)" '200 0' "a new server, the old group"
  eat
  wait_until 10 killed 1
  is "$(status_of a memory_kills)" 1
  stop_fpm a
}

@test "the status page shows how each vhost's cost is measured" {
  requires php_fpm mod_proxy_fcgi
  start_httpd -l proxy -l proxy_fcgi 'VhostLimit On' -v "$(php_in a)" -v "$(php_in b)"
  cat >"$HTTPD_ROOT/htdocs/a/burn.php" <<'END'
<?php $until = microtime(true) + 0.2; while (microtime(true) < $until);
END
  cp "$HTTPD_ROOT/htdocs/a/burn.php" "$HTTPD_ROOT/htdocs/b/burn.php"
  start_fpm a
  (start_fpm b elsewhere)
  a_is_measured() { get a /burn.php >/dev/null; [[ $(status_of a cost) == processes ]]; }
  b_is_measured() { get b /burn.php >/dev/null; [[ $(status_of b cost) == processes ]]; }
  wait_until 20 a_is_measured
  wait_until 20 b_is_measured
  is "$(get c /page.html)" 200
  is "$(status_of c cost)" thread
  is "$(get c /cgi/burn.sh)" 200
  settles c cost processes
  get status '/vhostlimit?prometheus' >/dev/null
  like "$(answer_body)" $'\nvhostlimit_cost_method\{vhost="b\.test",method="processes"\} 1\n'
  stop_fpm a
  stop_fpm b
}

@test "a fork bomb in one site's CGI program stops at its limit, and other sites are served" {
  requires pids
  start_httpd 'VhostLimit On' -v 'a VhostLimitProcesses 20'
  has_pids a 20                                   # before anything forks
  begin_request bomb a '/cgi/forks.pl?bomb'
  wait_until 20 test -s "$HTTPD_ROOT/hold/bomb.in"
  is "$(<"$HTTPD_ROOT/hold/bomb.in")" 19 "children of the one that forks"
  is "$(get b /cgi/nap.sh) $(get a /page.html)" '200 200' "the others, and what needs no process"
  touch "$HTTPD_ROOT/hold/bomb.go"
  is "$(answer_of bomb)" 200
  is "$(get a /cgi/nap.sh)" 200 "when it is over"
}

@test "a memory limit ends only the PHP worker of its own vhost" {
  requires memory php_fpm mod_proxy_fcgi
  local name before
  start_httpd -l proxy -l proxy_fcgi 'VhostLimit On' 'LogLevel proxy_fcgi:crit' -v 'a VhostLimitMemory 64M' \
    -v "$(php_in a)" -v "$(php_in b)"
  for name in a b; do
    echo '<?php echo getmypid();' >"$HTTPD_ROOT/htdocs/$name/pid.php"
    cat >"$HTTPD_ROOT/htdocs/$name/eat.php" <<'END'
<?php ini_set('memory_limit', -1); echo strlen(str_repeat('x', 200 << 20));
END
    start_fpm "$name"
  done
  is "$(get b /pid.php)" 200
  before=$(answer_body)
  is "$(get a /pid.php)" 200
  like "$(get a /eat.php)" '^50[023]$'
  is "$(get b /eat.php) $(answer_body)" '200 209715200'
  is "$(get b /pid.php) $(answer_body)" "200 $before" "the worker of b"
  wait_until 10 a_answers_again
  settles a memory_kills 1
  settles b memory_kills 0
  wait_until 15 error_log_has 'VL0022: site a\.test: the kernel killed 1 of its back-end processes for lack of memory, 1 since the start'
  is "$(grep -c VL0022 "$HTTPD_ROOT/logs/error.log")" 1 "lines in the log"
  get status '/vhostlimit?prometheus' >/dev/null
  like "$(answer_body)" $'\nvhostlimit_memory_kills_total\{vhost="a\.test"\} 1\n'
  graceful_httpd
  is "$(get a /pid.php) $(status_of a memory_kills)" '200 1' "after a restart"
  stop_fpm a
  stop_fpm b
}

a_answers_again() { [[ $(get a /pid.php) == 200 ]]; }

# Groups and limits are there before the restart, and the kernel would refuse each group, descriptor and write.
@test "a restart makes no group, opens no file and writes no limit of a site again, and writes a new limit" {
  requires root cgroups cc
  local args=('VhostLimit On' -v 'a VhostLimitCPU 50%' -v 'a VhostLimitProcesses 20') what
  start_frail "${args[@]}"
  is "$(grep -c 'VL0020' "$HTTPD_ROOT/logs/error.log" || :)" 0 "limits that are refused at the start"
  for what in mkdir open write; do runs_short "$what"; done
  graceful_httpd
  is "$(grep -cE 'VL00(04|20|21)' "$HTTPD_ROOT/logs/error.log" || :)" 0 "sites whose groups are made again"
  for what in mkdir open write; do has_enough "$what"; done
  is "$(get a /cgi/where.sh)" 200
  like "$(answer_body)" "$(group_of a)"
  runs_short write
  configure_frail 'VhostLimit On' -v 'a VhostLimitCPU 60%' -v 'a VhostLimitProcesses 20'
  graceful_httpd
  error_log_has 'VL0020: site a\.test: .* cannot be set to 60000'
  has_enough write
}
