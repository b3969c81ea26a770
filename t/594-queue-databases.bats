#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The CPU time of a database that two sites share, beside what the kernel counted for the server.
# The pages of site a make it compute for longer than those of site b. What each site used is known
# from the same number of pages without the other site.
#
# needs: phpmysql phppgsql

load lib/live
load lib/apps

setup() { requires root cgroups cpu ab php_fpm mod_proxy_fcgi; }

teardown() { all_of stop_apps end_server remove_group; }

# shellcheck disable=SC2034  # of apps.bash
FPM_OPTIONS=(-d extension=mysqlnd -d extension=mysqli -d extension=pgsql)

make_apps() { mkdir -p "$HTTPD_ROOT/app/run"; chmod 777 "$HTTPD_ROOT/app" "$HTTPD_ROOT/app/run"; }

as_server() { # <command>...
  setpriv --reuid "$(httpd_user)" --regid "$(id -g "$(httpd_user)")" --clear-groups "$@"
}

pages() { # <line of sql.ini>...
  local name
  for name in a b; do
    cp "$TOP/conf/testbed/pages/sql.php" "$HTTPD_ROOT/htdocs/$name"
    printf '%s\n' "user = site_$name" "$@" >"$HTTPD_ROOT/htdocs/$name/sql.ini"
  done
}

sql() { mariadb --no-defaults -u root -S "$HTTPD_ROOT/app/run/m" -e "$1"; }

# mariadbd does not change to the user by itself here: run_app does.
run_mariadb() { run_app mariadb "$HTTPD_ROOT/app/run/m" "$(command -v mariadbd || command -v mysqld)" --no-defaults \
  --datadir="$HTTPD_ROOT/app/mariadb" --socket="$HTTPD_ROOT/app/run/m" --pid-file="$HTTPD_ROOT/app/run/m.id" "$@"; }

start_mariadb() {
  rm -rf "$HTTPD_ROOT/app/mariadb"
  as_server mariadb-install-db --no-defaults --datadir="$HTTPD_ROOT/app/mariadb" --skip-test-db >"$HTTPD_ROOT/install.out" 2>&1 ||
    fail "mariadb-install-db: $(tail -n 5 "$HTTPD_ROOT/install.out")"
  run_mariadb --bind-address=127.0.0.1 --port="$(free_port sql)"
  wait_until 20 sql 'CREATE USER site_a@localhost, site_b@localhost'
}

pg_program() { compgen -G "/usr/lib/postgresql/*/bin/$1" || command -v "$1"; }

run_postgres() { run_app postgres "$HTTPD_ROOT/app/run/.s.PGSQL.$(free_port sql)" "$(pg_program postgres)" -D "$HTTPD_ROOT/app/postgres" \
  -p "$(free_port sql)" -c listen_addresses=127.0.0.1 -c "unix_socket_directories=$HTTPD_ROOT/app/run" -c max_connections=60; }

start_postgres() {
  rm -rf "$HTTPD_ROOT/app/postgres"
  as_server "$(pg_program initdb)" -D "$HTTPD_ROOT/app/postgres" -A trust -U root -N >"$HTTPD_ROOT/install.out" 2>&1
  run_postgres
  psql -qh "$HTTPD_ROOT/app/run" -p "$(free_port sql)" -U root postgres -c 'CREATE USER site_a' -c 'CREATE USER site_b'
}

# CPU time of the database server, us: of its process, and of its child processes, ended ones included.
server_us() {
  local pid file
  for file in "$HTTPD_ROOT"/app/run/{mariadb,postgres}.pid; do [[ ! -e $file ]] || pid=$(<"$file"); done
  {
    awk -v tick=$((1000000000 / $(getconf CLK_TCK))) '{ sub(/.*[)] /, ""); print ($12 + $13 + $14 + $15) * tick }' "/proc/$pid/stat"
    for pid in $(pgrep -P "$pid"); do cat "/proc/$pid/schedstat" || :; done 2>/dev/null
  } | awk '{ sum += $1 } END { printf "%d\n", sum / 1000 }'
}

charged() { # <site>: us of the database's CPU time
  status_json | jq "[.vhosts[] | select(.name == \"$1.test\") | .backends[] | select(.address | test(\"/(m|[.]s[.]PGSQL[.][0-9]+)$|:$(free_port sql)$\")) | .cpu_us] | add // 0"
}

# CPU time of the server for a page of the site, us.
cost_of() { # <site> <path>
  local before
  before=$(server_us)
  ab -q -n "$3" -c 1 -H "Host: $1.test" "http://127.0.0.1:$(httpd_port)$2" >/dev/null
  echo $((($(server_us) - before) / $3))
}

# Compares what is charged to both sites with what the kernel counted (all), and the part of a with that
# of what its pages use alone (part_a), permille.
load_both() { # <title> <path of a> <path of b> <cost of a> <cost of b> [<users of a> [<users of b>]]
  local before a b ab n_a n_b expected all part_a
  time_passes 2000
  before=$(server_us)
  a=$(charged a)
  b=$(charged b)
  begin_load a "${6:-6}" "$2"
  ab_a=$!
  begin_load b "${7:-6}" "$3"
  ab_b=$!
  for ab in $ab_a $ab_b; do wait "$ab" || fail "ab: $(cat "$HTTPD_ROOT/ab."[ab])"; done
  time_passes 2500
  before=$(($(server_us) - before))
  a=$(($(charged a) - a))
  b=$(($(charged b) - b))
  n_a=$(sed -n 's/^Complete requests: *//p' "$HTTPD_ROOT/ab.a")
  n_b=$(sed -n 's/^Complete requests: *//p' "$HTTPD_ROOT/ab.b")
  expected=$((n_a * $4 * 1000 / (n_a * $4 + n_b * $5 + 1)))
  [[ -z ${VL_APPS_SECONDS-} ]] || echo "# pages x cost / kernel: 0.$(((n_a * $4 + n_b * $5) * 1000 / before)); cost of a page: $4 $5 us" >&3
  all=$(((a + b) * 1000 / before))
  part_a=$((a * 1000 / (a + b + 1)))
  printf '# %-40s kernel %6d ms, charged 0.%03d of it; to a 0.%03d (used 0.%03d); pages %d %d\n' "$1" $((before / 1000)) "$all" "$part_a" "$expected" "$n_a" "$n_b" >&3
  at_least "$all" 800 "charged, permille of what the kernel counted"
  at_most "$all" 1200 "charged, permille of what the kernel counted"
  at_least "$part_a" $((expected - 350)) "charged to site a, permille"
  at_most "$part_a" $((expected + 350)) "charged to site a, permille"
}

two_pools() {
  local run=$HTTPD_ROOT/app/run
  start_in_group -l proxy -l proxy_fcgi -v "$(php_at a "unix:$run/a|fcgi://a/")" -v "$(php_at b "unix:$run/b|fcgi://b/")"
  start_fpm fpm a="$run/a" b="$run/b"
}

shared_pool() {
  local run=$HTTPD_ROOT/app/run
  start_in_group -l proxy -l proxy_fcgi -v "$(php_at a "unix:$run/p|fcgi://p/")" -v "$(php_at b "unix:$run/p|fcgi://p/")"
  start_fpm fpm p="$run/p"
}

compare_all() { # <title>
  local a b
  is "$(web "$(url a '/sql.php?ms=1')")$(web "$(url b '/sql.php?ms=1')")" askedasked
  a=$(cost_of a '/sql.php?ms=20' 20)
  b=$(cost_of b '/sql.php?ms=2' 40)
  load_both "$1" '/sql.php?ms=20' '/sql.php?ms=2' "$a" "$b"
  b=$(cost_of b '/sql.php?sleep=50' 10)
  load_both "$1, b sleeps" '/sql.php?ms=20' '/sql.php?sleep=50' "$a" "$b"
}

# Each worker of PHP keeps a connection for each site.
compare_kept() { # <title>
  local name a b
  for name in a b; do ab -q -n 60 -c 12 -H "Host: $name.test" "http://127.0.0.1:$(httpd_port)/sql.php?ms=1&keep=1" >/dev/null; done
  a=$(cost_of a '/sql.php?ms=20&keep=1' 40)
  b=$(cost_of b '/sql.php?ms=2&keep=1' 80)
  load_both "$1, connections kept" '/sql.php?ms=20&keep=1' '/sql.php?ms=2&keep=1' "$a" "$b"
}

@test "MariaDB: a pool for each site" {
  requires mariadb
  two_pools
  start_mariadb
  pages 'kind = mariadb' "at = $HTTPD_ROOT/app/run/m"
  compare_all 'MariaDB, two pools'
  compare_kept 'MariaDB, two pools'
}

@test "MariaDB: a pool that two sites share, and TCP" {
  requires mariadb
  shared_pool
  start_mariadb
  pages 'kind = mariadb' "at = $HTTPD_ROOT/app/run/m"
  compare_all 'MariaDB, shared pool'
  compare_kept 'MariaDB, shared pool'
  pages 'kind = mariadb' "at = 127.0.0.1" "port = $(free_port sql)"
  compare_all 'MariaDB, shared pool, TCP'
}

@test "PostgreSQL: a pool for each site" {
  requires postgresql
  two_pools
  start_postgres
  pages 'kind = postgresql' "at = $HTTPD_ROOT/app/run" "port = $(free_port sql)"
  compare_all 'PostgreSQL, two pools'
  compare_kept 'PostgreSQL, two pools'
}

@test "PostgreSQL: a pool that two sites share, and TCP" {
  requires postgresql
  shared_pool
  start_postgres
  pages 'kind = postgresql' "at = $HTTPD_ROOT/app/run" "port = $(free_port sql)"
  compare_all 'PostgreSQL, shared pool'
  compare_kept 'PostgreSQL, shared pool'
  pages 'kind = postgresql' 'at = 127.0.0.1' "port = $(free_port sql)"
  compare_all 'PostgreSQL, shared pool, TCP'
}

@test "MariaDB: it restarts under load, and is charged again" {
  requires mariadb
  local before
  two_pools
  start_mariadb
  pages 'kind = mariadb' "at = $HTTPD_ROOT/app/run/m"
  is "$(web "$(url a '/sql.php?ms=1')")" asked
  VL_APPS_SECONDS=100 begin_load a 4 '/sql.php?ms=5'
  ab_a=$!
  # shellcheck disable=SC2317  # wait_until calls it
  is_charged() { (($(charged a) > before + 200000)); }
  before=0
  wait_until 10 is_charged
  stop_app mariadb
  # shellcheck disable=SC2030,SC2034  # check_log reads it
  LOG_MAY_SAY=php
  is "$(get b /)" 200
  run_mariadb
  before=$(charged a)
  wait_until 10 is_charged
  kill "$ab_a"
  like "$(status_json | jq -r .sampler.unread)" '^$'
}

@test "MariaDB: a server that does not let root in is named, and divided between the requests" {
  requires mariadb
  two_pools
  # shellcheck disable=SC2031  # each test is a shell of its own
  export LOG_MAY_SAY=VL0080
  start_mariadb
  sql "ALTER USER root@localhost IDENTIFIED BY 'secret'"
  pages 'kind = mariadb' "at = $HTTPD_ROOT/app/run/m"
  VL_APPS_SECONDS=100 begin_load a 4 '/sql.php?ms=5'
  ab_a=$!
  is_named() { [[ $(status_json | jq -r .sampler.unread) == */m:*'does not let root in'* ]]; }
  wait_until 10 is_named
  error_log_has VL0080
  # shellcheck disable=SC2317  # wait_until calls it
  is_charged() { (($(charged a) > 100000)); }
  wait_until 10 is_charged
  kill "$ab_a"
}
