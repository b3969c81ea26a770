#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# MariaDB 11.8.9, column TID of information_schema.PROCESSLIST (the kernel's thread id).
# Expected: a statement that runs has the thread that executes it, so its CPU time is in
#   /proc/PID/task/TID/schedstat, with one thread for each connection and with the thread pool.
# Seen: with thread_handling=pool-of-threads the TID of every statement is 0, also while it
#   computes, and also for the statement that asks. No view says which thread works for which
#   connection.

. "$(dirname "$0")/lib.sh"
root trixie mariadb-server=1:11.8.9+ds-0+deb13u1

question() { in_root mariadb -S "/w/socket.$1" -N -e "$2"; }

# Prints the TID of a statement that computes, and the milliseconds of CPU that this thread used in a second.
busy_thread() { # <thread_handling>
  local server tid before=0 after=0 tries
  mkdir "$ROOT/w/data.$1"
  chroot "$ROOT" mariadbd --no-defaults --datadir="/w/data.$1" --socket="/w/socket.$1" --pid-file="/w/pid.$1" --user=root \
    --skip-networking --skip-grant-tables --innodb-buffer-pool-size=16M --thread-handling="$1" >"$ROOT/w/log.$1" 2>&1 &
  server=$!
  for ((tries = 0; tries < 200; tries++)); do
    ! question "$1" 'SELECT 1' >"$ROOT/w/out" 2>&1 || break
    sleep 0.1
  done
  question "$1" "SELECT BENCHMARK(1000000000, MD5('a'))" >"$ROOT/w/out" 2>&1 &
  sleep 1
  tid=$(question "$1" "SELECT TID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT BENCHMARK%'")
  [[ ! -e /proc/$server/task/$tid/schedstat ]] || read -r before _ <"/proc/$server/task/$tid/schedstat"
  sleep 1
  [[ ! -e /proc/$server/task/$tid/schedstat ]] || read -r after _ <"/proc/$server/task/$tid/schedstat"
  kill -KILL "$server"
  echo "$tid $(((after - before) / 1000000))"
}

measure() {
  read -r tid ms < <(busy_thread one-thread-per-connection)
  seen "one-thread-per-connection: TID $tid, $ms ms of CPU in 1 s" "tid > 0 && ms > 200"
  read -r tid ms < <(busy_thread pool-of-threads)
  seen "pool-of-threads: TID $tid" "tid == 0"
}

isolated measure
