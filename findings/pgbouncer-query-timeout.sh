#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# PgBouncer 1.24.1 before PostgreSQL 17.12, max_db_connections = 1, query_timeout = 1.
# Expected (manual page): a query that runs longer than query_timeout is canceled. With one server
#   connection at most one query computes at a time.
# Seen: PgBouncer closes its connection and cancels nothing. PostgreSQL computes on, and the
#   connection no longer counts. Three queries, one after another, compute at the same time.

. "$(dirname "$0")/lib.sh"
root trixie pgbouncer=1.24.1-1+deb13u2 postgresql-17=17.12-0+deb13u1 dash

measure() {
  local programs=/usr/lib/postgresql/17/bin
  as_user() { chroot --userspec=33:33 "$ROOT" "$@"; }
  question() { in_root "$programs/psql" -X -At -h 127.0.0.1 -p "$1" -U www-data -d postgres -c "$2"; }
  install -d -o 33 -g 33 "$ROOT/w/data"
  as_user "$programs/initdb" -D /w/data -A trust -N >"$ROOT/w/out"
  as_user "$programs/postgres" -D /w/data -k '' -h 127.0.0.1 >"$ROOT/w/log" 2>&1 &
  cat >"$ROOT/w/pgbouncer.ini" <<'END'
[databases]
postgres = host=127.0.0.1 user=www-data
[pgbouncer]
listen_addr = 127.0.0.1
unix_socket_dir =
auth_type = any
admin_users = www-data
query_timeout = 1
max_db_connections = 1
END
  until_listening 5432
  as_user pgbouncer -q /w/pgbouncer.ini 2>"$ROOT/w/log.pgbouncer" &
  until_listening 6432
  for _ in {1..3}; do
    question 6432 'SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b' >"$ROOT/w/answer" 2>&1 || :
    grep -m 1 'query timeout' "$ROOT/w/answer"
  done
  sleep 2
  servers=$(in_root "$programs/psql" -X -At -h 127.0.0.1 -p 6432 -U www-data -d pgbouncer -c 'SHOW SERVERS' | wc -l)
  active=$(question 5432 "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series%' AND pid <> pg_backend_pid()")
  seen "2 s after the third timeout: $servers server connections in PgBouncer, $active queries that compute in PostgreSQL" \
    "servers <= 1 && active == 3"
}

isolated measure
