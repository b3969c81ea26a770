#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Keep-alive connections while other requests are queued: the client sees no difference
# from plain Apache.

# shellcheck disable=SC2030,SC2031  # each test is a shell of its own
load lib/live

ONE_CHILD=(-t 'StartServers 1' -t 'ServerLimit 2' -t 'ThreadLimit 16' -t 'ThreadsPerChild 16'
  -t 'MaxRequestWorkers 32' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 32')
SERVER_STATUS=('ExtendedStatus On' '<Location "/server-status">' 'SetHandler server-status' '</Location>')
PAGE='GET /page.html HTTP/1.1\r\nHost: a.test\r\n\r\n'
LAST='GET /sub/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'

teardown() { all_of release_all check_nothing_is_left end_server; }

# ---- the state before a test ---------------------------------------------------

# Counts the child's descriptors without files of cgroups, which it opens when it first
# reads them.
descriptors() { find "/proc/$(first_child)/fd" -mindepth 1 ! -lname '/sys/fs/cgroup/*' 2>/dev/null | wc -l; }
first_child() { httpd_children | sed -n 1p; }
worker_status() { web "$(url status '/server-status?auto')"; }

# The connections are counted by the kernel. Event updates those of mod_status only when a timeout
# is due, so a new child process shows those of the one that had its place in the scoreboard.
workers_rest() {
  [[ $(worker_status) == *$'\nBusyWorkers: 1\n'* ]] || return 1
  [[ -z $(ss -Htn state established state close-wait "sport = :$(httpd_port)") ]]
}

back_to_before() { workers_rest && { [[ ! -e $BATS_TEST_TMPDIR/before ]] || (($(descriptors) <= $(<"$BATS_TEST_TMPDIR/before"))); }; }

check_nothing_is_left() {
  httpd_up || return 0
  wait_until 12 back_to_before || { worker_status; descriptors; show_log; return 1; }
}

# ---- contention ------------------------------------------------------------------

# A request is queued for the only slot of c all the time. No other vhost has to wait.
start_contended() { # <mpm> <as start_httpd>...
  local children=("${ONE_CHILD[@]}")
  [[ $1 != prefork ]] || children=()
  start_httpd -m "$1" -l status "${children[@]}" "${SERVER_STATUS[@]}" 'VhostLimit On' \
    'Timeout 60' 'VhostLimitQueue 3000 60s' 'VhostLimitSlots 6' -v 'c VhostLimitConcurrency 1' "${@:2}"
  is "$(get a / -H 'Connection: close')" 200
  settles a running 0         # the response arrives before the slot is free
  hold_request busy c
  begin_request waits c /page.html
  settles c waiting 1
  descriptors >"$BATS_TEST_TMPDIR/before"
}

in_background() { # <name> <step>...   packets
  exec_packets "${@:2}" >"$BATS_TEST_TMPDIR/$1" 2>&1 3>&- 4>&- &
  eval "$1_pid=$!"
}
go() { touch "$BATS_TEST_TMPDIR/go-$1"; }         # <name>
when() { echo "@when:$BATS_TEST_TMPDIR/go-$1"; }  # <name>
has_got() { grep -q -- "$2" "$BATS_TEST_TMPDIR/$1"; }

statuses() { grep -aoE 'HTTP/1\.1 [0-9]{3}' <<<"$1" | cut -d ' ' -f 2 | xargs; }
contents() { grep -aoE '(page|sub|index) of [a-z]|held [a-z0-9]*|[0-9]+ bytes' <<<"$1" | tr '\n' ','; }
closes() { grep -aic '^Connection: close' <<<"$1" || :; }

# ---- order -----------------------------------------------------------------------

keeps_order_on() { # <mpm>
  local kept_pid
  start_contended "$1" -v 'a VhostLimitConcurrency 1'
  in_background kept "$PAGE" '@until:page of a' "$(when two)" \
    'GET /cgi/hold.sh?k2 HTTP/1.1\r\nHost: a.test\r\n\r\n' '@until:held k2' "$(when three)" \
    'GET /cgi/hold.sh?k3 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'
  settles a requests 2; settles a running 0
  hold_request one a
  go two; settles a waiting 1
  begin_request n2 a '/cgi/hold.sh?n2'; settles a waiting 2
  release_request one
  is "$(answer_of n2)" 200
  settles a running 0
  hold_request again a
  go three; settles a waiting 1
  begin_request n3 a '/cgi/hold.sh?n3'; settles a waiting 2
  release_request again
  wait "$kept_pid"
  is "$(answer_of n3) $(begun '[kn].')" '200 k2 n2 k3 n3'
  local text
  text=$(<"$BATS_TEST_TMPDIR/kept")
  is "$(contents "$text")" 'page of a,held k2,held k3,'
  is "$(closes "$text")" 1
  at_least "$(status_of a queued)" 4 "queued requests"
}

@test "on each MPM later requests of a keep-alive connection are queued and answered in order" {
  on_each_mpm keeps_order_on
}

# ---- the same as plain Apache ---------------------------------------------------

five_one_by_one() {
  local i steps=()
  for i in 1 2 3 4 5; do
    steps+=("GET /page.html?$i HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n" "@until:(page of a.*){$i}")
  done
  packets "${steps[@]}" | sed '/^\(Date\|ETag\|Last-Modified\): /d'
}

is_as_plain_on() { # <mpm>
  local lines=('MaxKeepAliveRequests 3' 'LogFormat "%v %q %>s k=%k X=%X a=%a" kept' "CustomLog \"$HTTPD_ROOT/logs/kept.log\" kept")
  local plain
  start_httpd -n -m "$1" "${lines[@]}"
  plain=$(five_one_by_one)
  wait_until 5 grep -q 'k=3' "$HTTPD_ROOT/logs/kept.log"
  plain+=$(grep '^a.test' "$HTTPD_ROOT/logs/kept.log")
  stop_httpd
  start_contended "$1" "${lines[@]}"
  : >"$HTTPD_ROOT/logs/kept.log"
  local ours
  ours=$(five_one_by_one)
  wait_until 5 grep -q 'k=3' "$HTTPD_ROOT/logs/kept.log"
  ours+=$(grep '^a.test' "$HTTPD_ROOT/logs/kept.log")
  like "$plain" 'max=1.*k=3 X=-'
  is "$ours" "$plain"
}

@test "on each MPM MaxKeepAliveRequests, Keep-Alive, %k and %X are as without the module" {
  on_each_mpm is_as_plain_on
}

idles_as_configured_on() { # <mpm>
  local short_pid long_pid both=$BATS_TEST_TMPDIR/both
  start_contended "$1" -v 'a KeepAliveTimeout 1' -v 'b KeepAliveTimeout 2'
  in_background long "${PAGE/a.test/b.test}"
  in_background short "$PAGE"
  milliseconds wait "$short_pid" >"$both"
  kill -0 "$long_pid" || fail "the connection to b is closed with that to a"
  milliseconds wait "$long_pid" >>"$both"
  at_least "$(xargs <"$both" | cut -d ' ' -f 1)" 900 "milliseconds until a's is closed"
  at_least "$(awk '{ n += $1 } END { print n }' "$both")" 1900 "milliseconds until b's is closed"
  at_most "$(awk '{ n += $1 } END { print n }' "$both")" 14000 "milliseconds (the client gives up after 15 s)"
}

@test "event and worker: an idle connection is closed after the KeepAliveTimeout of its vhost" {
  MPMS='event worker' on_each_mpm idles_as_configured_on
}

@test "the KeepAliveTimeout of the last request's vhost applies, also if that is Off" {
  local took
  start_contended event -v 'b VhostLimit Off' -v 'a KeepAliveTimeout 9' -v 'b KeepAliveTimeout 1'
  took=$(milliseconds packets "$PAGE${PAGE/a.test/b.test}")
  at_least "$took" 950 milliseconds; at_most "$took" 8500 "milliseconds, a's timeout being 9 s"
}

# ---- input --------------------------------------------------------------------------

takes_packets_on() { # <mpm>
  start_contended "$1"
  local post='POST /cgi/echo.sh HTTP/1.1\r\nHost: a.test\r\nContent-Length: 12\r\n\r\n'
  is "$(contents "$(packets "$PAGE" '@until:page of a' @200 "${LAST:0:9}" @200 "${LAST:9}")")" 'page of a,sub of a,'
  is "$(contents "$(packets "$PAGE" '@until:page of a' "$post" @100 abcdef @100 ghijkl '@until:12 bytes' "$LAST")")" \
    'page of a,12 bytes,sub of a,'
  is "$(contents "$(packets "$post" @100 abcdef @100 ghijkl '@until:12 bytes' "${post}abcdefghijkl" "$LAST")")" \
    '12 bytes,12 bytes,sub of a,'
  is "$(contents "$(packets "$PAGE" '@until:page of a' "$PAGE" @half)")" 'page of a,page of a,'
  is "$(contents "$(packets '@bytes:5' "$PAGE" '@until:page of a' '@bytes:5' "$LAST")")" 'page of a,sub of a,'
}

@test "on each MPM a keep-alive connection serves requests in several packets, bodies, and half-closed clients" {
  on_each_mpm takes_packets_on
}

@test "a client that closes its sending half while its request is queued is answered" {
  local half_pid
  start_contended event -v 'a VhostLimitConcurrency 1'
  in_background half "$PAGE" '@until:page of a' "$(when go)" "$PAGE" @half
  settles a requests 2
  hold_request one a
  go go; settles a waiting 1
  release_request one
  wait "$half_pid"
  is "$(contents "$(<"$BATS_TEST_TMPDIR/half")")" 'page of a,page of a,'
}

# ---- pipelines ------------------------------------------------------------------------

requests() { # <number>   in one text; the last closes
  local i text=''
  for ((i = 1; i < $1; i++)); do
    if ((i % 2)); then text+=$PAGE; else text+=${PAGE/page.html/}; fi
  done
  echo "$text$LAST"
}
pages() { local i; for ((i = 1; i < $1; i++)); do ((i % 2)) && printf 'page of a,' || printf 'index of a,'; done; echo 'sub of a,'; }

pipelines_on() { # <mpm>
  local n text
  start_contended "$1"
  for n in 2 3 10; do
    is "$(contents "$(packets "$(requests $n)")")" "$(pages $n)" "$n at once"
    text=$(packets "$PAGE" '@until:page of a' @100 "$(requests $n)")
    is "$(contents "$text")" "page of a,$(pages $n)" "$n at once after one"
    is "$(closes "$text")" 1
  done
}

@test "on each MPM 2, 3 and 10 requests in one packet are answered in order" {
  on_each_mpm pipelines_on
}

# A request that holds its slot until it is released.
begin_held() { # <name> <vhost>
  mkfifo -m 666 "$HTTPD_ROOT/hold/$1.fifo"
  begin_request "$1" "$2" "/cgi/hold.sh?$1"
}

# The programs take longer than the quantum of a lease.
@test "event: a pipeline of requests does not evade the queue" {
  local many_pid text
  requires mod_lua
  start_httpd -m event -l status -l lua "${ONE_CHILD[@]}" "${SERVER_STATUS[@]}" 'VhostLimit On' 'VhostLimitSlots 1' 'VhostLimitCgroup off' \
    -v "a LuaMapHandler /burn $HTTPD_ROOT/lua/burn.lua"
  hold_request one a
  in_background many 'GET /burn HTTP/1.1\r\nHost: a.test\r\n\r\n'"$(requests 3)"
  settles a waiting 1
  begin_held two a; settles a waiting 2
  begin_request three a /sub/; settles a waiting 3
  release_request one
  wait_until 5 held two
  settles a waiting 2
  release_request two
  is "$(answer_of three)" 200
  wait "$many_pid"
  text=$(<"$BATS_TEST_TMPDIR/many")
  is "$(statuses "$text")" '200 200 200 200'
}

# ---- closing ---------------------------------------------------------------------------

TOO_MUCH='POST /page.html HTTP/1.1\r\nHost: a.test\r\nContent-Length: 30000000\r\n\r\n'

answers_early_on() { # <mpm>
  local text
  start_contended "$1" -v 'a LimitRequestBody 1000' -v 'b <Location /sub/>' -v 'b Require all denied' -v 'b </Location>'
  text=$(packets "$TOO_MUCH" @send:30000000)
  like "$text" '^HTTP/1.1 413 .*</html>' "a new connection"; is "${text##*</html>}" '' "its end"
  text=$(packets "$PAGE" '@until:page of a' "$TOO_MUCH" @send:30000000)
  like "$text" 'HTTP/1.1 413 .*</html>' "a kept one"; is "${text##*</html>}" '' "its end"
  text=$(packets "${LAST/GET/POST}" @send:3000000)
  like "$text" '^HTTP/1.1 [24]' "a body that was not announced"
}

@test "on each MPM a client that sends 30 MB of an unwanted body gets the complete response" {
  on_each_mpm answers_early_on
}

@test "a client that filled its socket while its request was queued gets the complete response" {
  local big_pid text
  start_contended event -v 'a LimitRequestBody 1000' -v 'a VhostLimitConcurrency 1'
  hold_request one a
  in_background big "${TOO_MUCH:0:9}" @300 "${TOO_MUCH:9}" @send:30000000
  settles a waiting 1
  wait_until 5 window_is_full
  release_request one
  milliseconds wait "$big_pid" >"$BATS_TEST_TMPDIR/took"
  text=$(<"$BATS_TEST_TMPDIR/big")
  like "$text" '^HTTP/1.1 413 .*</html>'; is "${text##*</html>}" '' "its end"
  at_most "$(<"$BATS_TEST_TMPDIR/took")" 14000 "milliseconds (the client gives up after 15 s)"
}

# The client has unsent bytes, and their number does not change within 0.3 s.
window_is_full() {
  local hex seen
  hex=$(printf ':%04X' "$(httpd_port)")
  seen=$(unsent "$hex")
  [[ -n $seen ]] && sleep 0.3 && [[ $(unsent "$hex") == "$seen" ]]
}
unsent() { awk -v p="$1" '$3 ~ p "$" && $4 == "01" { split($5, q, ":"); if (q[1] ~ /[1-9A-F]/) print q[1] }' /proc/net/tcp; }

reads_slowly_on() { # <mpm>
  local size=6000000 keep close both
  start_contended "$1"
  truncate -s $size "$HTTPD_ROOT/htdocs/a/six.bin"
  keep="${PAGE/page.html/six.bin}" close="${LAST/sub\//six.bin}"
  at_least "$(packets @slow:2 "$close" | wc -c)" $size "closed"
  both=$(packets @slow:2 "$keep" "@take:$size" "$LAST" | tr -d '\0')
  is "$(contents "$both") $(statuses "$both")" 'sub of a, 200 200'
  at_least "$(packets "$PAGE" '@until:page of a' @slow:2 "$keep" "@take:$((size + 300))" "$keep" "@take:$((2 * size + 600))" "$close" | wc -c)" $((3 * size)) "kept"
}

@test "event and worker: a slow client receives six megabytes completely" {
  MPMS='event worker' on_each_mpm reads_slowly_on
}

# The server has unsent bytes, and their number does not change within 0.3 s.
answer_is_stuck() {
  local seen
  seen=$(not_taken)
  ((seen > 0)) && sleep 0.3 && (($(not_taken) == seen))
}
not_taken() { ss -Htn state established "sport = :$(httpd_port)" | awk '{ n += $2 } END { print n + 0 }'; }

# Prints what a client gets that requests 64 MB and then a page, if the file is truncated
# while the client reads nothing.
got_of_shortened() { # <bytes>
  local file=$HTTPD_ROOT/htdocs/a/shortened.bin go=$BATS_TEST_TMPDIR/go reader
  rm -f "$go"
  truncate -s 64M "$file"
  packets "${PAGE/page.html/shortened.bin}" '@take:1000' "@when:$go" "$LAST" >"$BATS_TEST_TMPDIR/shortened" 3>&- 4>&- &
  reader=$!
  wait_until 10 answer_is_stuck
  truncate -s "$1" "$file"
  : >"$go"
  wait "$reader"
  tr -d '\0' <"$BATS_TEST_TMPDIR/shortened" | grep -ao 'HTTP/1.1 [0-9]*'
  tr -cd '\0' <"$BATS_TEST_TMPDIR/shortened" | wc -c
}

# The end that does not fill a buffer is lost, as in plain Apache.
@test "a file that is truncated while it is sent: the client gets a part of it and no other response" {
  local got
  start_httpd -l status "${SERVER_STATUS[@]}" 'VhostLimit On' 'EnableMMAP Off'
  got=$(got_of_shortened 25000123)
  like "$got" $'^HTTP/1.1 200\n[0-9]+$'
  at_least "${got##*$'\n'}" 20000000 "bytes"
  at_most "${got##*$'\n'}" 25000123 "bytes"
  got=$(got_of_shortened 1000)
  like "$got" $'^HTTP/1.1 200\n[0-9]+$'
  at_most "${got##*$'\n'}" 24000000 "bytes, read before it became shorter"
  settles a running 0
}

gone_at_every_stage_on() { # <mpm>
  local reset_pid how
  start_contended "$1" -v 'a VhostLimitConcurrency 2' -v 'a LimitRequestBody 1000'
  for how in @reset @close; do
    repeat 3 packets $how
    repeat 3 packets "${PAGE:0:12}" @50 $how
    repeat 3 packets "$PAGE" $how
    repeat 3 packets "$PAGE" '@until:page of a' $how
    repeat 3 packets "$PAGE" '@until:page of a' @50 "${PAGE:0:12}" @50 $how
    repeat 3 packets "${PAGE/page.html/big.bin}" '@until:200 OK' $how
    repeat 3 packets "$PAGE" '@until:page of a' "${PAGE/page.html/big.bin}" '@until:200 OK.*200 OK' $how
    repeat 3 packets "$TOO_MUCH" @send:100000 $how
    repeat 3 packets "$LAST" '@until:sub of a' $how
    repeat 3 packets "$PAGE$PAGE" '@until:page of a.*page of a' "$PAGE" $how
  done >/dev/null
  hold_request one a; hold_request two a
  in_background reset "$PAGE" "$(when go)" @reset
  settles a waiting 1
  go go
  wait "$reset_pid"
  release_request one; release_request two
  settles a running 0
  settles a waiting 0
}

@test "event and worker: clients that close at any stage leave no request, queue entry or descriptor" {
  MPMS='event worker' on_each_mpm gone_at_every_stage_on
}

# ---- many -------------------------------------------------------------------------------

begin_kept() { # <number>
  exec_packets --kept "$1" "$BATS_TEST_TMPDIR/go-kept" "$PAGE" >"$BATS_TEST_TMPDIR/kept" 2>&1 3>&- 4>&- &
  kept_pid=$!
  wait_until 40 has_got kept ' '
}

@test "event: a thousand keep-alive connections are parked and served again" {
  local kept_pid
  (($(ulimit -Hn) >= 3000)) || skip "not 3000 descriptors"
  ulimit -n 3000
  start_contended event 'KeepAliveTimeout 60'
  begin_kept 1000
  is "$(xargs <"$BATS_TEST_TMPDIR/kept")" '1000 200' "before"
  is "$(get a / -m 5) $(get b / -m 5)" '200 200'
  at_least "$(descriptors)" 1000 "descriptors"
  go kept
  wait "$kept_pid"
  is "$(xargs <"$BATS_TEST_TMPDIR/kept")" '1000 200 1000 200' "before and after"
}

# Only the server has few descriptors.
start_short() { # <as start_contended>...
  local before
  before=$(ulimit -Sn)
  ulimit -Sn 500
  start_contended "$@"
  ulimit -Sn "$before"
}

@test "new connections are served while keep-alive connections use the descriptors for them" {
  local kept_pid
  start_short event 'KeepAliveTimeout 60'
  begin_kept 700
  is "$(xargs <"$BATS_TEST_TMPDIR/kept")" '700 200'
  is "$(get a / -m 5) $(get b / -m 5)" '200 200'
  kill "$kept_pid"; wait "$kept_pid" || :
}

@test "new connections are served while clients do not close their end" {
  local kept_pid
  start_short event
  PAGE=$LAST begin_kept 700
  is "$(xargs <"$BATS_TEST_TMPDIR/kept")" '700 200'
  is "$(get a / -m 5) $(get b / -m 5)" '200 200'
  kill "$kept_pid"; wait "$kept_pid" || :
}

@test "new connections are served while connections with half a head use all descriptors" {
  local idle_pid
  start_short event
  in_background idle --idle 700 20 'GET / HT'
  wait_until 10 has_got idle open
  is "$(get a / -m 5) $(get b / -m 5)" '200 200'
  kill "$idle_pid"; wait "$idle_pid" || :
}

# ---- children that end -----------------------------------------------------------------

# One connection is idle, one is queued, one is closing while its client still sends.
restarts_on() { # <mpm> <command>...
  local idle_pid wait_pid closing_pid
  start_contended "$1" -v 'a LimitRequestBody 1000' -v 'b VhostLimitConcurrency 1'
  rm "$BATS_TEST_TMPDIR/before"             # the child that it describes will end
  hold_request one b
  in_background idle "$PAGE" '@until:page of a' "$(when idle)" "$PAGE" '@until:page of a.*page of a' @half
  in_background wait "${PAGE/a.test/b.test}" '@until:page of b' @half
  in_background closing "${TOO_MUCH/30000000/300000}" @send:1000 @200 "$(when idle)" @200 @send:1000 @200 @send:1000
  settles b waiting 1
  wait_until 5 has_got_one_answer_each
  "${@:2}"
  go idle
  release_request one
  wait "$idle_pid" "$wait_pid" "$closing_pid" || :
  is "$(contents "$(<"$BATS_TEST_TMPDIR/wait")")" 'page of b,'
  like "$(<"$BATS_TEST_TMPDIR/closing")" '^HTTP/1.1 413 .*</html>'
  like "$(contents "$(<"$BATS_TEST_TMPDIR/idle")")" '^page of a,(page of a,)?'
  [[ $(<"$BATS_TEST_TMPDIR/idle")$(<"$BATS_TEST_TMPDIR/closing") != *'[reset]'* ]]
  is "$(get a /)" 200
}
has_got_one_answer_each() { (($(status_of a requests) >= 3)); }

@test "on each MPM a graceful restart loses no idle, queued or closing connection" {
  on_each_mpm restarts_on graceful_httpd
}

stops_with_all_kinds_on() { # <mpm> <signal>
  local idle_pid wait_pid closing_pid pids pid
  start_contended "$1" -v 'a LimitRequestBody 1000'
  in_background idle "$PAGE"
  in_background wait "${PAGE/a.test/c.test}"
  in_background closing "${TOO_MUCH/30000000/300000}" @send:1000 "$(when over)"
  settles c waiting 2
  wait_until 5 has_got_one_answer_each
  mapfile -t pids < <(httpd_pid; httpd_children)
  kill "-$2" "${pids[0]}"
  release_all
  for pid in "${pids[@]}"; do wait_until 15 gone "$pid"; done
  go over
  wait "$idle_pid" "$wait_pid" "$closing_pid" || :
  rm "$BATS_TEST_TMPDIR/go-over"
  is "$(contents "$(<"$BATS_TEST_TMPDIR/idle")")" 'page of a,'
}

@test "event and worker: a stop and a graceful stop end while connections of all kinds are open" {
  MPMS='event worker' on_each_mpm stops_with_all_kinds_on TERM
  MPMS='event worker' on_each_mpm stops_with_all_kinds_on WINCH
}

@test "children that reach MaxConnectionsPerChild close keep-alive connections without a reset" {
  local kept_pid
  start_contended event 'MaxConnectionsPerChild 30' 'KeepAliveTimeout 60' -t 'ServerLimit 16'
  rm "$BATS_TEST_TMPDIR/before"
  begin_kept 100
  is "$(xargs <"$BATS_TEST_TMPDIR/kept")" '100 200' "before"
  go kept
  wait "$kept_pid"
  # Plain Apache closes them all when a child ends.
  like "$(xargs <"$BATS_TEST_TMPDIR/kept")" '^100 200 (([0-9]+ 200 )?[0-9]+ none|100 200)$' "before and after"
}

# ---- closing connections
# ------------------------------------------------------------------

# Sends a request over a connection that the client keeps open, and reads to the end.
ask_and_keep_open() { # <request as printf takes it>
  # shellcheck disable=SC2059  # a format
  printf "$1" >&"$client"
  wait_until 5 read_to_end
}
read_to_end() { timeout 1 cat <&"$client" >"$BATS_TEST_TMPDIR/answer"; }
has_descriptors() { (($(descriptors) == $1)); }  # <number>

@test "a connection lingers unless its client announced the close and sent no body" {
  local before client
  start_httpd -m event -l status "${ONE_CHILD[@]}" "${SERVER_STATUS[@]}" 'VhostLimit On' 'KeepAlive Off'
  is "$(get a /)" 200
  before=$(descriptors)
  exec {client}<>"/dev/tcp/127.0.0.1/$(httpd_port)"
  ask_and_keep_open 'GET /page.html HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'
  wait_until 5 has_descriptors "$before"
  exec {client}>&-
  exec {client}<>"/dev/tcp/127.0.0.1/$(httpd_port)"
  ask_and_keep_open 'GET /page.html HTTP/1.0\r\nHost: a.test\r\n\r\n'
  wait_until 5 has_descriptors "$before"
  exec {client}>&-
  exec {client}<>"/dev/tcp/127.0.0.1/$(httpd_port)"
  ask_and_keep_open 'GET /page.html HTTP/1.1\r\nHost: a.test\r\n\r\n'
  has_descriptors $((before + 1)) || fail "closed at once, without lingering"
  exec {client}>&-
  wait_until 5 has_descriptors "$before"
  exec {client}<>"/dev/tcp/127.0.0.1/$(httpd_port)"
  ask_and_keep_open 'POST /cgi/echo.sh HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab'
  has_descriptors $((before + 1)) || fail "closed at once after the body, without lingering"
  exec {client}>&-
}

# ---- connections with state
# --------------------------------------------------------------

@test "a TLS connection keeps its TLS session between requests" {
  requires mod_ssl openssl
  openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=a.test -days 2 -keyout "$BATS_FILE_TMPDIR/key" \
    -out "$BATS_FILE_TMPDIR/cert" 2>/dev/null
  start_contended event -l ssl "Listen 127.0.0.3:$(httpd_port)" -x "<VirtualHost 127.0.0.3:$(httpd_port)>" \
    -x 'ServerName tls.test' -x 'SSLEngine on' -x "SSLCertificateFile $BATS_FILE_TMPDIR/cert" \
    -x "SSLCertificateKeyFile $BATS_FILE_TMPDIR/key" -x '</VirtualHost>'
  is "$(web -k --resolve "tls.test:$(httpd_port):127.0.0.3" -o /dev/null -w '%{http_code} %{num_connects},' "https://tls.test:$(httpd_port)/page.html?[1-4]")" \
    '200 1,200 0,200 0,200 0,'
}

@test "a connection behind a PROXY header keeps its client's address between requests" {
  start_contended event -l remoteip -v 'a RemoteIPProxyProtocol On' 'RemoteIPProxyProtocolExceptions 127.0.0.1' \
    'LogFormat "%v %s k=%k %a" kept' "CustomLog \"$HTTPD_ROOT/logs/kept.log\" kept"
  : >"$HTTPD_ROOT/logs/kept.log"
  is "$(web --haproxy-protocol --interface 127.0.0.3 -o /dev/null -w '%{http_code} %{num_connects},' "$(url a '/page.html?[1-3]')")" \
    '200 1,200 0,200 0,'
  is "$(grep '^a.test' "$HTTPD_ROOT/logs/kept.log" | tr '\n' ,)" \
    'a.test 200 k=0 127.0.0.3,a.test 200 k=1 127.0.0.3,a.test 200 k=2 127.0.0.3,'
}

@test "HTTP/2 connections are served, with prior knowledge and upgraded" {
  requires mod_http2 curl_http2 h2load
  start_contended event -l http2 'Protocols h2c http/1.1'
  like "$(h2load -n 20 -c 1 -m 1 --connect-to="127.0.0.1:$(httpd_port)" "$(url a /page.html)")" ' 20 2xx'
  is "$(web --http2 -o /dev/null -w '%{http_code} %{http_version}' "$(url a /page.html)")" '200 2'
}
