#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# PostgreSQL 17.12, and the kernel's autogroups (sched(7)), on one processor.
# Expected: the processes of one server are one autogroup, as PHP-FPM's are. So four sessions that
#   compute get half of a processor beside four processes of another daemon.
# Seen: each session is an autogroup of its own, so the four sessions get four fifths. This holds
#   where neither server is in a group of the cpu controller.

. "$(dirname "$0")/lib.sh"
[[ $(cat /proc/sys/kernel/sched_autogroup_enabled 2>/dev/null) == 1 ]] || { echo "needs autogroups"; exit 77; }
root trixie postgresql-17=17.12-0+deb13u1 dash coreutils

measure() {
  local programs=/usr/lib/postgresql/17/bin sessions others
  as_user() { chroot --userspec=33:33 "$ROOT" "$@"; }
  ticks() { cat "${@/%//stat}" | awk '{ n += $14 + $15 } END { print n }'; }   # names without spaces
  install -d -o 33 -g 33 "$ROOT/w/data"
  as_user "$programs/initdb" -D /w/data -A trust -N >"$ROOT/w/out"
  taskset -cp 0 $$ >"$ROOT/w/out"
  as_user "$programs/postgres" -D /w/data -k '' -h 127.0.0.1 >"$ROOT/w/log" 2>&1 &
  until_listening 5432
  for _ in 1 2 3 4; do
    in_root timeout 20 "$programs/psql" -X -At -h 127.0.0.1 -U www-data -d postgres \
      -c 'SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b' >"$ROOT/w/answer" 2>&1 &
  done
  setsid bash -c 'for _ in 1 2 3 4; do timeout 20 dash -c "while :; do :; done" & done; wait' &
  sleep 3
  mapfile -t sessions < <(pgrep -f 'postgres: www-data' | sed 's|^|/proc/|')
  mapfile -t others < <(pgrep -x dash | sed 's|^|/proc/|')
  groups=$(cat "${sessions[@]/%//autogroup}" | sort -u | wc -l)
  used=$(ticks "${sessions[@]}") rest=$(ticks "${others[@]}")
  sleep 5
  used=$(($(ticks "${sessions[@]}") - used)) rest=$(($(ticks "${others[@]}") - rest))
  part=$((100 * used / (used + rest + 1)))
  seen "${#sessions[@]} sessions are $groups autogroups, and have $part % of the processor beside ${#others[@]} other processes" \
    "groups == 4 && part > 70"
}

isolated measure
