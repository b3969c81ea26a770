#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The sampler: it finds the CPU time of back ends without configuration, requests that sleep
# hold no slot, and a call of the server to itself goes ahead of its callers.

load lib/live
load lib/control

setup() { requires root php_fpm mod_proxy_fcgi; }

teardown() { all_of stop_master end_server drop_box; }
drop_box() { [[ ! -e /run/netns/vl-calls ]] || ip netns del vl-calls; }

IN_NET=()    # a command that runs the master in another network namespace

# One master with a pool for each vhost, and one for both of them.
start_master() {
  local root=$HTTPD_ROOT/fpm user pool
  user=$(httpd_user)
  mkdir -p "$root"
  {
    printf '%s\n' '[global]' "pid = $root/pid" "error_log = $root/log" 'daemonize = yes'
    for pool in a b shared; do
      printf '%s\n' "[$pool]" "user = $user" "group = $(id -gn "$user")" "listen = $root/$pool" \
        "listen.owner = $user" 'pm = static' "pm.max_children = ${POOL:-24}"
    done
  } >"$root/conf"
  "${IN_NET[@]}" "$(php_fpm_program | sed -n 1p)" -n -y "$root/conf" 3>&- 4>&- </dev/null >"$root/out" 2>&1
  has_workers() { (($(pgrep -cP "$(<"$root/pid")" -f 'pool (a|b|shared)$') == 3 * ${POOL:-24})); }
  wait_until 10 has_workers
}

stop_master() {
  local pid
  pid=$(cat "$HTTPD_ROOT/fpm/pid" 2>/dev/null) || return 0
  kill "$pid"
  wait_until 10 gone "$pid"
}

to_pool() { # <vhost> <pool>   prints the line that sends PHP pages there
  printf '%s <FilesMatch "\.php$">\nSetHandler "proxy:unix:%s/fpm/%s|fcgi://%s/"\n</FilesMatch>\n' \
    "$1" "$HTTPD_ROOT" "$2" "$2"
}

make_php_pages() {
  local name
  for name in a b; do
    cat >"$HTTPD_ROOT/htdocs/$name/burn.php" <<'END'
<?php
function used() { $u = getrusage(); return $u['ru_utime.tv_sec'] * 1e3 + $u['ru_utime.tv_usec'] / 1e3; }
for ($until = used() + $_GET['ms']; used() < $until;);
echo 'burnt';
END
    cat >"$HTTPD_ROOT/htdocs/$name/sleep.php" <<END
<?php
while (!file_exists('$HTTPD_ROOT/hold/' . \$_GET['go'])) usleep(50000);
echo 'slept';
END
    cat >"$HTTPD_ROOT/htdocs/$name/call.php" <<'END'
<?php
$to = ($_GET['to'] ?? 'a') . '.test';
$page = isset($_GET['ms']) ? "/burn.php?ms=$_GET[ms]" : ($_GET['page'] ?? '/page.html');
while (isset($_GET['after']) && !file_exists("$_SERVER[DOCUMENT_ROOT]/../../hold/$_GET[after]")) usleep(10000);
if (isset($_GET['program']))
  exit(shell_exec("curl -s -o /dev/null -w '%{http_code}' -H 'Host: $to' http://127.0.0.1:$_SERVER[SERVER_PORT]$page; true") == 200 ? 'called' : 'failed');
$server = fsockopen($_GET['at'] ?? '127.0.0.1', $_SERVER['SERVER_PORT']);
$is_http2 = isset($_GET['http2']);
if ($is_http2) fwrite($server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0");
function ask_http1() {
  global $server, $to, $page;
  fwrite($server, "GET $page HTTP/1.1\r\nHost: $to\r\n\r\n");
  for ($first = $line = fgets($server); trim($line); $line = fgets($server)) sscanf($line, 'Content-Length: %d', $length);
  if (isset($length)) fread($server, $length);
  else for ($size = 1; $size; fread($server, $size + 2)) $size = hexdec(trim(fgets($server)));
  return strpos($first, ' 200 ');
}
function ask_http2($stream) {
  global $server, $to, $page;
  $head = "\x82\x86\x04" . chr(strlen($page)) . $page . "\x01" . chr(strlen($to)) . $to;
  fwrite($server, substr(pack('N', strlen($head)), 1) . "\1\5" . pack('N', $stream) . $head);
  do {
    $frame = unpack('Nlength/ctype', "\0" . stream_get_contents($server, 9));
    $bytes = $frame['length'] ? stream_get_contents($server, $frame['length']) : '';
  } while ($frame['type'] != 1);
  return $bytes[0] == "\x88";
}
for ($i = 0; $i < ($_GET['times'] ?? 1); $i++) {
  if (!($is_http2 ? ask_http2(2 * $i + 1) : ask_http1())) exit('failed');
  if ($i) usleep(50000);
}
echo 'called';
END
    echo '<?php echo "sorry";' >"$HTTPD_ROOT/htdocs/$name/err.php"
  done
}

# Starts the master and Apache with a and b in these pools.
start_with_pools() { # <pool of a> <pool of b> [start_httpd argument]...
  make_site 'a b c'
  start_httpd -l proxy -l proxy_fcgi -v "$(to_pool a "$1")" -v "$(to_pool b "$2")" "${@:3}" 'VhostLimit On'
  start_master
  make_php_pages
}

# Requests that sleep until wake_up.
begin_sleepers() { # <vhost> <name>...
  local name
  for name in "${@:2}"; do begin_request "$name" "$1" '/sleep.php?go=morning'; done
}
wake_up() { # <name>...
  local name
  touch "$HTTPD_ROOT/hold/morning"
  for name; do is "$(answer_of "$name")" 200; done
}

workers_of() { pgrep -P "$(<"$HTTPD_ROOT/fpm/pid")" -f "pool $1\$"; }    # <pool>

# CPU time of the workers of a pool, by the kernel's counters, ms.
pool_ms() { # <pool>
  local pid ms=0
  for pid in $(workers_of "$1"); do
    ms=$((ms + $(awk '{ print ($14 + $15) * 10 }' "/proc/$pid/stat")))
  done
  echo "$ms"
}

backend_ms() { echo $(($(status_of "$1" backend_us) / 1000)); }  # <vhost>

# Moves processes into the cgroup of a vhost, where the kernel has one.
move_to() { # <vhost> <pid>...
  local pid dir
  while read -r dir; do
    for pid in "${@:2}"; do echo "$pid" >"$dir/cgroup.procs"; done
  done < <(cgroup_dirs "$(httpd_cgroup)/$1.test")
}

@test "the CPU time of each pool of one PHP-FPM master is charged to its site, whatever cgroups its workers are in" {
  start_with_pools a b
  local i used
  # shellcheck disable=SC2046  # process IDs
  move_to b $(workers_of a)
  move_to a "$(workers_of b | sed -n 1p)"
  begin_sleepers b s1 s2
  for i in 1 2 3 4 5 6; do is "$(get a '/burn.php?ms=300')" 200; done
  wake_up s1 s2
  settles a cost processes
  settles b cost processes
  settles c cost thread
  used=$(pool_ms a)
  charged_enough() { at_least "$(backend_ms a)" $((used * 7 / 10)) 2>/dev/null; }
  wait_until 10 charged_enough
  at_most "$(backend_ms a)" $((used * 11 / 10 + 20)) "ms charged to a, whose pool used $used ms"
  at_most "$(backend_ms b)" 100 "ms charged to b, whose pages sleep"
  like "$(status_json | jq -r '.vhosts[] | select(.name | startswith("a.")).backends[] | "\(.address) \(.cpu_us / 1e5 | floor > 0)"')" \
    '/fpm/a true' "by back end"
}

@test "the CPU time of a pool that two sites share is charged to the one that uses it" {
  start_with_pools shared shared
  local i
  begin_sleepers b b{1..8}
  for i in 1 2 3 4 5 6; do is "$(get a '/burn.php?ms=300')" 200; done
  wake_up b{1..8}
  is_divided() { (($(backend_ms a) > 500 && $(backend_ms a) > 4 * $(backend_ms b))); }
  wait_until 10 is_divided || fail "a: $(backend_ms a) ms, b: $(backend_ms b) ms"
}

# With nice 19 beside 0 they have 1.5 % of a processor, however many of them run.
@test "a site whose workers the scheduler keeps from running gets processors, because requests of the other one wait" {
  requires ab
  local name used_a used_b loads=()
  taskset -cp "$(taskset -cp "$BASHPID" | sed 's/.*: //; s/[-,].*//')" "$BASHPID"
  start_with_pools a b
  for name in a b; do
    ab -q -r -s 60 -c 20 -t 60 -n 1000000 -H "Host: $name.test" "http://127.0.0.1:$(httpd_port)/burn.php?ms=30" \
      >"$HTTPD_ROOT/ab.$name" 2>&1 3>&- 4>&- &
    loads+=($!)
  done
  # ab opens its other connections after its first response.
  wait_until 10 status_at_least a requests 2
  # shellcheck disable=SC2046  # process IDs
  renice -n 19 -p $(workers_of a)
  time_passes 2000
  used_a=$(pool_ms a) used_b=$(pool_ms b)
  time_passes 5000
  used_a=$(($(pool_ms a) - used_a)) used_b=$(($(pool_ms b) - used_b))
  at_least $((used_a * 100 / (used_a + used_b))) 25 "% of the CPU time of both pools"
  kill "${loads[@]}"
}

@test "requests that sleep hold nearly no slot, and a number of slots that is set counts requests" {
  start_with_pools a b -t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadLimit 64' -t 'ThreadsPerChild 64' \
    -t 'MaxRequestWorkers 64' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 64'
  local slots names
  slots=$(status_json | jq .slots)
  mapfile -t names < <(seq -f 's%.0f' $((slots + 6)))
  begin_sleepers a "${names[@]}"
  wait_until 10 status_at_least a running $((slots < 18 ? slots + 6 : 24))
  wait_until 10 status_at_least a asleep 10
  is "$(get b '/burn.php?ms=10')" 200 "while they sleep"
  at_most "$(status_of a runnable_permille)" 3000 "thousandths of slots that they hold"
  wake_up "${names[@]}"
  stop_master
  stop_httpd
  start_with_pools a b 'VhostLimitSlots 5'
  begin_sleepers a t{1..8}
  wait_until 10 status_at_least a waiting 3
  at_most "$(status_of a running)" 5 "requests in five slots"
  wake_up t{1..8}
}

# Fills pools of four processes, in which site b has one request, with requests of site a.
fill() { # <pool of a> <pool of b>
  POOL=4 start_with_pools "$1" "$2" -t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadLimit 128' -t 'ThreadsPerChild 128' \
    -t 'MaxRequestWorkers 128' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 128'
  begin_sleepers b one
  settles b cost processes
  mapfile -t names < <(seq -f 's%.0f' $(($(status_json | jq .slots) + 16)))
  begin_sleepers a "${names[@]}"
}

@test "requests in the backlog of a pool that other sites use hold slots, in that of an own one they hold none" {
  local names
  fill shared shared
  wait_until 10 status_at_least a duty_permille 900
  is "$(get b /page.html)" 200
  wake_up one "${names[@]}"
  stop_master
  stop_httpd
  rm "$HTTPD_ROOT/hold/morning"
  fill a b
  wait_until 10 status_at_least a asleep ${#names[@]}
  is "$(get a /page.html)" 200
  wake_up one "${names[@]}"
}

# While its processes are stopped, more requests than slots get into its backlog.
@test "a shared pool whose processes were stopped is shared by CPU time again" {
  requires ab
  local name used_a used_b loads=()
  taskset -cp "$(taskset -cp "$BASHPID" | sed 's/.*: //; s/[-,].*//')" "$BASHPID"
  POOL=10 start_with_pools shared shared
  for name in a:2 b:20; do
    ab -q -r -s 60 -c 100 -t 60 -n 1000000 -H "Host: ${name%:*}.test" "http://127.0.0.1:$(httpd_port)/burn.php?ms=${name#*:}" \
      >"$HTTPD_ROOT/ab.${name%:*}" 2>&1 3>&- 4>&- &
    loads+=($!)
  done
  wait_until 10 status_at_least b requests 20
  # shellcheck disable=SC2046  # process IDs
  kill -STOP $(workers_of shared)
  time_passes 2000
  # shellcheck disable=SC2046  # process IDs
  kill -CONT $(workers_of shared)
  time_passes 5000
  used_a=$(status_of a charged_us) used_b=$(status_of b charged_us)
  time_passes 5000
  used_a=$(($(status_of a charged_us) - used_a)) used_b=$(($(status_of b charged_us) - used_b))
  at_least $((used_a * 100 / (used_a + used_b))) 40 "% of the CPU time, for pages of 2 ms beside pages of 20 ms"
  kill "${loads[@]}"
}

explains() { [[ $(ctl explain "$1.test") == *"$2"* ]]; }    # <vhost> <text>

@test "explain names the back end whose processes are all busy, and the site that has them" {
  requires ctl
  local busy="requests wait for $HTTPD_ROOT/fpm/shared, whose processes are all busy"
  POOL=4 start_with_pools shared shared
  begin_sleepers b b{1..4}
  wait_until 10 status_at_least b asleep 4
  begin_sleepers a a{1..3}
  wait_until 10 explains a "3 $busy: b.test has 4 of them. "
  is "$(ctl explain --json a.test | jq -c .causes)" '["backlog"]'
  is "$(ctl explain --json b.test | jq -c .causes)" '[]'
  wake_up b{1..4} a{1..3}
  wait_until 10 explains a 'Nothing limits the site'
}

@test "explain names the site of this server that pages call, and pages that hold the processes which their calls need" {
  requires ctl
  POOL=2 start_with_pools a b
  begin_request one a '/call.php?to=b&page=/sleep.php?go=morning'
  wait_until 10 explains a 'Its requests wait for requests of b.test: 1 is running and 0 are queued. Next: vhostlimitctl explain b.test.'
  touch "$HTTPD_ROOT/hold/morning"
  is "$(answer_of one)" 200
  begin_request one a '/call.php?ms=10&after=noon'
  begin_request two a '/call.php?ms=10&after=noon'
  wait_until 10 status_at_least a asleep 2
  touch "$HTTPD_ROOT/hold/noon"
  wait_until 10 explains a "2 requests wait for $HTTPD_ROOT/fpm/a, whose processes are all busy: the site itself has 2 of them. Its requests there call this site in turn"
  like "$(ctl explain a.test)" 'requests of the site itself: 2 are running and 0 are queued'
}

# How a page calls: a new connection, another address of the machine, which it reaches from 127.0.0.1, a kept
# connection, and streams of HTTP/2.
WAYS=('' 'at=127.0.0.2' 'times=3' 'http2=1&times=3')

# Prints a and b at another address for -x.
at_address() { # <address>
  local name
  for name in a b; do
    printf '%s\n' "<VirtualHost $1:$(httpd_port)>" "ServerName $name.test:$(httpd_port)" "DocumentRoot $HTTPD_ROOT/htdocs/$name" \
      "$(to_pool - "$name" | sed 's/^- //')" '</VirtualHost>'
  done
}

start_with_ways() { # [start_httpd argument]...
  start_with_pools a b -l http2 'Protocols h2c http/1.1' -x "$(at_address 127.0.0.2)" "$@"
}

@test "a page that asks its own site is answered, also with one running request, however it asks" {
  requires mod_http2
  start_with_ways 'VhostLimitConcurrency 1' 'VhostLimitQueue 100 20s'
  local i way
  for way in "${WAYS[@]}" 'program=1' 'page=/call.php?page=/call.php?page=/call.php'; do
    for i in 1 2 3 4; do begin_request "c$i" a "/call.php?$way"; done
    for i in 1 2 3 4; do is "$(answer_of "c$i")" 200 "$way"; done
    is "$(cat "$HTTPD_ROOT/hold"/c[1-4].body)" calledcalledcalledcalled "$way"
  done
  is "$(status_of a refused)" 0
}

proxies_to_itself() { # <number of threads> <ab option> <line>...
  stay_engaged
  start_httpd -l proxy -l proxy_http -v "a ProxyPass / http://127.0.0.1:$(free_port second)/" -v 'a ProxyPreserveHost On' \
    -x "Listen 127.0.0.1:$(free_port second)" -x "<VirtualHost 127.0.0.1:$(free_port second)>" -x "ServerName a.test:$(free_port second)" \
    -x "DocumentRoot $HTTPD_ROOT/htdocs/a" -x '</VirtualHost>' 'VhostLimit On' "${@:3}" -t 'StartServers 2' -t 'ServerLimit 2' -t "ThreadLimit $1" \
    -t "ThreadsPerChild $1" -t "MaxRequestWorkers $((2 * $1))" -t 'MinSpareThreads 1' -t "MaxSpareThreads $((2 * $1))"
  timeout $((60 * SLOWER)) ab -q -r -l "$2" -n 6000 -c 100 -s 60 -H 'Host: a.test' "http://127.0.0.1:$(httpd_port)/page.html" >"$HTTPD_ROOT/ab"
  like "$(<"$HTTPD_ROOT/ab")" 'Complete requests: *6000'
  is "$(grep -c Non-2xx "$HTTPD_ROOT/ab") $(status_of a refused)" '0 0'
}

@test "Apache that proxies to a second port of its own answers all requests: of few that may run, over more kept connections than threads" {
  requires ab mod_proxy_http
  proxies_to_itself 64 -q 'VhostLimitConcurrency 4'
  stop_httpd
  proxies_to_itself 16 -k
}

@test "a page in another network namespace, as in a container, that asks its own site is answered from the second call on" {
  requires netns
  local box=vl-calls i
  ip netns add $box
  ip link add vl-calls type veth peer name eth0 netns $box
  ip address add 10.9.7.1/24 dev vl-calls
  ip link set vl-calls up
  ip -n $box address add 10.9.7.2/24 dev eth0
  ip -n $box link set eth0 up
  IN_NET=(nsenter "--net=/run/netns/$box")
  start_with_pools a b -x "Listen 10.9.7.1:$(httpd_port)" -x "$(at_address 10.9.7.1)" -v 'a VhostLimitConcurrency 1'
  begin_request first b '/call.php?to=b&at=10.9.7.1&page=/sleep.php?go=morning'
  settles b asleep 2
  wake_up first
  for i in 1 2 3 4; do begin_request "c$i" a '/call.php?at=10.9.7.1'; done
  for i in 1 2 3 4; do is "$(answer_of "c$i") $(<"$HTTPD_ROOT/hold/c$i.body")" '200 called'; done
}

@test "a page that asks another site is charged for what that site does, however it asks" {
  requires mod_http2
  stay_engaged  # a dormant server charges the other site
  start_with_ways
  local way used=0
  has_caller_paid() { (($(backend_ms a) >= used)); }
  for way in "${WAYS[@]}"; do
    is "$(get a "/call.php?to=b&ms=$([[ $way == *times* ]] && echo 500 || echo 1500)&$way")" 200
    is "$(answer_body)" called
    used=$((used + 1000))
    wait_until 10 has_caller_paid || fail "$way: a: $(backend_ms a) ms, b: $(backend_ms b) ms"
  done
  at_most "$(backend_ms b)" 1000 "ms charged to b"
  is "$(status_of b requests)" 8 "requests counted for b"
}

# Most of them end between two rounds.
@test "short calls of another site are charged to the caller, also two at once" {
  requires ab
  stay_engaged
  start_with_pools a b
  cat >"$HTTPD_ROOT/htdocs/a/two.php" <<'END'
<?php
foreach ([0, 1] as $i) {
  $call[$i] = fsockopen('127.0.0.1', $_SERVER['SERVER_PORT']);
  fwrite($call[$i], "GET /burn.php?ms=20 HTTP/1.0\r\nHost: b.test\r\n\r\n");
}
while ($call) {
  $ready = $call;
  stream_select($ready, $none, $none, 10);
  foreach ($ready as $i => $one) if (fread($one, 1000) == '') unset($call[$i]);
}
END
  local page a=0 b=0
  for page in '/call.php?to=b&ms=30' /two.php; do
    timeout $((30 * SLOWER)) ab -q -r -l -n 100000 -t 4 -c 8 -H 'Host: a.test' "http://127.0.0.1:$(httpd_port)$page" >"$HTTPD_ROOT/ab" || :
    time_passes 1000
    a=$(($(backend_ms a) - a)) b=$(($(backend_ms b) - b))
    echo "# $page: charged to a $a ms, to b $b ms" >&3
    at_least "$a" $((2 * b)) "ms charged to the caller"
    a=$(backend_ms a) b=$(backend_ms b)
  done
}

@test "while calls to the same server are queued, a round of the sampler rests a hundred times its length" {
  requires ab
  stay_engaged
  start_with_pools a b
  local sampler before from calls
  sampler=$(pgrep -P "$(httpd_pid)" -x vl-sampler)
  ab -q -r -l -n 100000 -t 4 -c 20 -H 'Host: a.test' "http://127.0.0.1:$(httpd_port)/call.php" >"$HTTPD_ROOT/ab" 2>&1 & calls=$!
  time_passes 1000
  before=$(cpu_of "$sampler") from=${EPOCHREALTIME/./}
  time_passes 2000
  at_most $((($(cpu_of "$sampler") - before) * 1000 / (${EPOCHREALTIME/./} - from))) 25 "permille of a processor"
  wait "$calls"
}

@test "the error page of a refusal takes a slot, or is Apache's own" {
  start_with_pools a b 'VhostLimitSlots 2' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 0' \
    -v 'a ErrorDocument 503 /err.php'
  begin_sleepers a one
  wait_until 10 status_is a running 1
  is "$(get a /page.html) $(answer_body)" '503 sorry' "a slot is free"
  begin_sleepers b two
  wait_until 10 status_is b running 1
  is "$(get a /page.html)" 503
  like "$(answer_body)" 'Service Unavailable' "no slot is free"
  wake_up one two
  is "$(access_log a | awk '/err/' | wc -l)" 0 "no request of its own"
}

@test "the PHP page for a request that ends before its admission takes a slot, and is charged to the site" {
  local state page_pid
  for state in dormant engaged; do
    [[ $state == dormant ]] || stay_engaged
    start_with_pools a b -v 'a VhostLimitConcurrency 1' -v 'a ErrorDocument 400 /burn.php?ms=1500'
    in_background page packets 'GET /page.html HTTP/1.1\r\nHost: a.test/x\r\n\r\n'
    wait_until 10 status_is a running 1
    wait "$page_pid"
    has_paid() { (($(backend_ms a) >= 1000)); }
    wait_until 10 has_paid || fail "$state: $(backend_ms a) ms charged"
    is "$(status_of a requests)" 1 "$state: requests counted"
    stop_master
    stop_httpd
  done
}

@test "a back end whose processes cannot be seen is named by the log, and counted for doctor" {
  local pid
  POOL=2 start_with_pools a b
  mkdir "$HTTPD_ROOT/empty"
  for pid in "$(<"$HTTPD_ROOT/fpm/pid")" $(workers_of a); do mount --bind "$HTTPD_ROOT/empty" "/proc/$pid"; done
  begin_sleepers a one
  wait_until 20 error_log_has "VL0078.*$HTTPD_ROOT/fpm/a,"
  is "$(status_json | jq .sampler.unfound)" 1
  umount "/proc/$(<"$HTTPD_ROOT/fpm/pid")"
  wake_up one
}

@test "a sampler that has died is started again, and none is left when the server stops" {
  start_httpd 'VhostLimit On'
  local first
  sampler() { pgrep -P "$(httpd_pid)" -x vl-sampler; }
  another() { local now; now=$(sampler) && [[ $now != "$first" ]]; }
  wait_until 10 sampler
  first=$(sampler)
  kill -KILL "$first"
  wait_until 20 another
  error_log_has 'VL0076'
  first=$(sampler)
  graceful_httpd
  wait_until 20 another
  first=$(sampler)
  stop_httpd
  wait_until 10 gone "$first"
}
