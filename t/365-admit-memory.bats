#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The memory of a child process for sites that it has no requests of, and of the server for
# host names that clients invent.

load lib/live

@test "prefork: an idle child uses no more memory with ten thousand vhosts than with ten" {
  [[ ! ${VL_SANITIZER-} ]] || skip "a sanitizer has memory of its own"
  local few many number=4
  [[ -z ${VL_LONG-} ]] || number=400
  few=$(private_memory 10 "$number")
  many=$(private_memory 10000 "$number")
  echo "# private memory of $number children, kB, median and mean: $few with 10 vhosts, $many with 10000" >&3
  at_most "${many% *}" $((${few% *} + 100)) "kB with ten thousand vhosts"
}

@test "random host names take the memory of their accounts, and no more than max= of them" {
  [[ ! ${VL_SANITIZER-} ]] || skip "a sanitizer has memory of its own"
  local number=5000 plain all few
  [[ -z ${VL_LONG-} ]] || number=50000
  plain=$(grows_by "$number" Vhost)
  all=$(grows_by "$number" Host)
  few=$(grows_by "$number" 'Host max=100')
  echo "# memory of all processes after $number random host names: $plain kB more with one account," \
    "$all kB with $number, $few kB with max=100" >&3
  # An account takes about 3 KB. 3 MB are for other memory, which differs from run to run.
  at_least "$all" $((plain + number * 2 - 3000)) "kB with an account for each"
  at_most "$all" $((plain + number * 4 + 3000)) "kB with an account for each"
  at_most "$few" $((plain + 100 * 4 + 3000)) "kB with 100 accounts"
}

# Fifty connections ask at once for about 3 ms of CPU time, and one slot is free, so nearly all are queued.
@test "event: kept connections that have been queued free the memory of their requests" {
  [[ ! ${VL_SANITIZER-} ]] || skip "a sanitizer has memory of its own"
  requires mod_lua
  local number=200 before kept_pid page='GET /work?6 HTTP/1.1\r\nHost: a.test\r\n\r\n'
  stay_engaged
  start_httpd -m event -l lua -t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadsPerChild 16' -t 'MaxRequestWorkers 16' \
    'VhostLimit On' 'VhostLimitSlots 1' 'KeepAliveTimeout 60' 'Timeout 60' -v "a LuaMapHandler /work $HTTPD_ROOT/lua/work.lua"
  is "$(get a '/work?6')" 200 "answer"
  before=$(set_size)
  HOLD=60 perl "$TOP/t/lib/packets.pl" "$(httpd_port)" --kept "$number" "$TOP/README.md" "$page" >"$BATS_TEST_TMPDIR/kept" 3>&- 4>&- &
  kept_pid=$!
  wait_until 40 all_are_answered_twice
  wait_until 10 has_grown_by_at_most $((before + number * 35))
  is "$(ss -Htn state established "sport = :$(httpd_port)" | wc -l)" "$number" "open connections"
  echo "# $(($(set_size) - before)) kB for $number connections" >&3
  kill "$kept_pid"
}

all_are_answered_twice() { [[ $(xargs <"$BATS_TEST_TMPDIR/kept") == "200 200 200 200" ]]; }
has_grown_by_at_most() { (($(set_size) <= $1)); }

# Starts a server, asks it for random host names and prints by how many kB the proportional
# set size of its processes has grown. One request is made before.
grows_by() { # <number> <value of VhostLimitAccounts>
  local before
  start_httpd -m event -t 'StartServers 2' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 800' 'VhostLimit On' \
    -v 'a ServerAlias *.shop.test' -v "a VhostLimitAccounts $2"
  is "$(get a /page.html)" 200 "answer" >&2
  before=$(set_size)
  is "$(perl "$TOP/t/lib/random_hosts.pl" "$(httpd_port)" "$1" .shop.test)" "$1" "answers" >&2
  echo $(($(set_size) - before))
  stop_httpd >&2
}

set_size() { # of the server, kB
  { httpd_pid; httpd_children; } |
    while read -r pid; do sed -n 's/^Pss: *\([0-9]*\) kB/\1/p' "/proc/$pid/smaps_rollup"; done |
    awk '{ sum += $1 } END { print sum + 0 }'
}

# Starts prefork with the vhosts and stops it. Prints the private memory of its children in kB:
# the median, which is that of a child that has served nothing, and the mean. The acceptor is one
# of the children.
private_memory() { # <vhosts> <children>
  shop_vhosts "$1" >"$BATS_TEST_TMPDIR/vhosts.conf"
  start_httpd -m prefork 'VhostLimit On' 'VhostLimitCgroup off' -t "ServerLimit $2" -t "MaxRequestWorkers $2" \
    -t "StartServers $2" -t "MinSpareServers $2" -t "MaxSpareServers $(($2 + 1))" \
    -x "Include \"$BATS_TEST_TMPDIR/vhosts.conf\""
  wait_until 60 has_children "$2"
  is "$(get a /page.html)" 200 "answer"
  httpd_children | while read -r pid; do sed -n 's/^Private_Dirty: *\([0-9]*\) kB/\1/p' "/proc/$pid/smaps_rollup"; done |
    sort -n | awk '{ kb[NR] = $1; sum += $1 } END { print kb[int((NR + 1) / 2)], int(sum / NR) }'
  stop_httpd
}

has_children() { (($(httpd_children | wc -l) >= $1)); }
