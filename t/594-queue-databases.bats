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

sql() { mariadb --no-defaults -u "${2:-root}" -S "$HTTPD_ROOT/app/run/m" -e "$1"; }   # <statements> [<user>]

# mariadbd does not change to the user by itself here: run_app does.
run_mariadb() { run_app mariadb "$HTTPD_ROOT/app/run/m" "$(command -v mariadbd || command -v mysqld)" --no-defaults \
  --datadir="$HTTPD_ROOT/app/mariadb" --socket="$HTTPD_ROOT/app/run/m" --pid-file="$HTTPD_ROOT/app/run/m.id" \
  --bind-address=127.0.0.1 --port="$(free_port sql)" "$@"; }

# Each database is installed once, for all tests of this file.
install_once() { # <kind> <command>...
  local made=$BATS_FILE_TMPDIR/$1
  if [[ ! -d $made ]]; then
    as_server "${@:2}" >"$HTTPD_ROOT/install.out" 2>&1 || fail "$2: $(tail -n 5 "$HTTPD_ROOT/install.out")"
    cp -a "$HTTPD_ROOT/app/$1" "$made"
  fi
  rm -rf "$HTTPD_ROOT/app/$1"
  cp -a "$made" "$HTTPD_ROOT/app/$1"
}

start_mariadb() { # <option>...
  install_once mariadb mariadb-install-db --no-defaults --datadir="$HTTPD_ROOT/app/mariadb" --skip-test-db --innodb-log-file-size=4M
  run_mariadb "$@"
  wait_until 20 sql 'CREATE USER site_a@localhost, site_b@localhost, b_cron@localhost'
}

# MySQL's server, which Debian's stable releases do not have.
need_mysql() { [[ $(mysqld --version 2>&1) == *Ver*[0-9]* && $(mysqld --version) != *MariaDB* ]] || { echo "no MySQL"; return 1; }; }

start_mysql() {
  install_once mysql mysqld --no-defaults --initialize-insecure --datadir="$HTTPD_ROOT/app/mysql"
  run_app mysql "$HTTPD_ROOT/app/run/m" mysqld --no-defaults --datadir="$HTTPD_ROOT/app/mysql" --socket="$HTTPD_ROOT/app/run/m" \
    --pid-file="$HTTPD_ROOT/app/run/m.id" --mysqlx=OFF --secure-file-priv= --bind-address=127.0.0.1 --port="$(free_port sql)" \
    --plugin-load-add=auth_socket.so
  wait_until 20 sql "CREATE USER site_a@localhost, site_b@localhost; ALTER USER root@localhost IDENTIFIED WITH auth_socket"
}

pg_program() { compgen -G "/usr/lib/postgresql/*/bin/$1" || command -v "$1"; }

run_postgres() { run_app postgres "$HTTPD_ROOT/app/run/.s.PGSQL.$(free_port sql)" "$(pg_program postgres)" -D "$HTTPD_ROOT/app/postgres" \
  -p "$(free_port sql)" -c listen_addresses=127.0.0.1 -c "unix_socket_directories=$HTTPD_ROOT/app/run" -c max_connections=60; }

start_postgres() {
  install_once postgres "$(pg_program initdb)" -D "$HTTPD_ROOT/app/postgres" -A trust -U root -N
  run_postgres
  psql_as root -c 'CREATE USER site_a' -c 'CREATE USER site_b' -c 'CREATE USER b_cron'
}

psql_as() { psql -qh "$HTTPD_ROOT/app/run" -p "$(free_port sql)" -U "$1" postgres "${@:2}"; } # <user> <option>...

# CPU time of the database server, us: of its process, and of its child processes, ended ones included.
server_us() {
  local pid file
  for file in "$HTTPD_ROOT"/app/run/{mariadb,mysql,postgres}.pid; do [[ ! -e $file ]] || pid=$(<"$file"); done
  {
    awk -v tick=$((1000000000 / $(getconf CLK_TCK))) '{ sub(/.*[)] /, ""); print ($12 + $13 + $14 + $15) * tick }' "/proc/$pid/stat"
    for pid in $(pgrep -P "$pid"); do cat "/proc/$pid/schedstat" || :; done 2>/dev/null
  } | awk '{ sum += $1 } END { printf "%d\n", sum / 1000 }'
}

charged() { # <site>: us of the database's CPU time
  status_json | jq "[.vhosts[] | select(.name == \"$1.test\") | .backends[] | select(.address | test(\"/(m|[.]s[.]PGSQL[.]$(free_port sql))$|:$(free_port sql)$\")) | .cpu_us] | add // 0"
}

# CPU time of the server for a page of the site, us.
cost_of() { # <site> <path>
  local before
  before=$(server_us)
  ab -q -n "$3" -c 1 -H "Host: $1.test" "http://127.0.0.1:$(httpd_port)$2" >/dev/null
  echo $((($(server_us) - before) / $3))
}

# Compares what is charged to both sites with what the kernel counted (all), and the part of a with that
# of what its pages use alone (part_a), permille. Beside other tests few lists of sessions are read, so the part
# has a close bound in the long form only.
compare() { # <title> <path of a> <path of b> <cost of a> <cost of b>
  local before a b n_a n_b expected all part_a off=350
  is_long || off=450
  time_passes 1000
  before=$(server_us)
  a=$(charged a)
  b=$(charged b)
  load_both "$2" "$3" 6 6
  time_passes 1500
  before=$(($(server_us) - before))
  a=$(($(charged a) - a))
  b=$(($(charged b) - b))
  n_a=$(pages_of a)
  n_b=$(pages_of b)
  expected=$((n_a * $4 * 1000 / (n_a * $4 + n_b * $5 + 1)))
  [[ -z ${VL_APPS_SECONDS-} ]] || echo "# pages x cost / kernel: 0.$(((n_a * $4 + n_b * $5) * 1000 / before)); cost of a page: $4 $5 us" >&3
  all=$(((a + b) * 1000 / before))
  part_a=$((a * 1000 / (a + b + 1)))
  printf '# %-40s kernel %6d ms, charged %d.%03d of it; to a 0.%03d (used 0.%03d); pages %d %d\n' "$1" $((before / 1000)) $((all / 1000)) $((all % 1000)) "$part_a" "$expected" "$n_a" "$n_b" >&3
  at_least "$all" 800 "charged, permille of what the kernel counted"
  at_most "$all" 1200 "charged, permille of what the kernel counted"
  at_least "$part_a" $((expected - off)) "charged to site a, permille"
  at_most "$part_a" $((expected + off)) "charged to site a, permille"
}

compare_all() { # <title>
  local a b
  is "$(web "$(url a '/sql.php?ms=1')")$(web "$(url b '/sql.php?ms=1')")" askedasked
  a=$(cost_of a '/sql.php?ms=20' 20)
  b=$(cost_of b '/sql.php?ms=2' 40)
  compare "$1" '/sql.php?ms=20' '/sql.php?ms=2' "$a" "$b"
  is_long || return 0
  b=$(cost_of b '/sql.php?sleep=50' 10)
  compare "$1, b sleeps" '/sql.php?ms=20' '/sql.php?sleep=50' "$a" "$b"
}

# Each worker of PHP keeps a connection for each site.
compare_kept() { # <title>
  local name a b
  for name in a b; do ab -q -n 60 -c 12 -H "Host: $name.test" "http://127.0.0.1:$(httpd_port)/sql.php?ms=1&keep=1" >/dev/null; done
  a=$(cost_of a '/sql.php?ms=20&keep=1' 40)
  b=$(cost_of b '/sql.php?ms=2&keep=1' 80)
  compare "$1, connections kept" '/sql.php?ms=20&keep=1' '/sql.php?ms=2&keep=1' "$a" "$b"
}

@test "MariaDB: a pool for each site" {
  requires mariadb
  two_pools
  start_mariadb
  pages 'kind = mariadb' "at = $HTTPD_ROOT/app/run/m"
  compare_all 'MariaDB, two pools'
  ! is_long || compare_kept 'MariaDB, two pools'
}

@test "MariaDB: a pool that two sites share, and TCP" {
  requires mariadb
  shared_pool
  start_mariadb
  pages 'kind = mariadb' "at = $HTTPD_ROOT/app/run/m"
  ! is_long || compare_all 'MariaDB, shared pool'
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
  ! is_long || compare_kept 'PostgreSQL, two pools'
}

@test "PostgreSQL: a pool that two sites share, and TCP" {
  requires postgresql
  shared_pool
  start_postgres
  pages 'kind = postgresql' "at = $HTTPD_ROOT/app/run" "port = $(free_port sql)"
  ! is_long || compare_all 'PostgreSQL, shared pool'
  compare_kept 'PostgreSQL, shared pool'
  pages 'kind = postgresql' 'at = 127.0.0.1' "port = $(free_port sql)"
  compare_all 'PostgreSQL, shared pool, TCP'
}

@test "MySQL: a pool for each site" {
  requires mysql
  two_pools
  start_mysql
  pages 'kind = mariadb' "at = $HTTPD_ROOT/app/run/m"
  compare_all 'MySQL, two pools'
  compare_kept 'MySQL, two pools'
}

# Seconds until site a is charged for its sessions (VL0080: they cannot be seen).
resumes() { # <title>
  local before started=$EPOCHREALTIME
  before=$(charged a)
  # shellcheck disable=SC2317  # called by wait_until
  is_charged() { (($(charged a) > before + 100000)) && [[ $(status_json | jq -r .sampler.unread) == '' ]]; }
  wait_until 8 is_charged || { status_json | jq '.sampler.unread, .vhosts[0].backends'; return 1; }
  printf '# %-40s charged again after %d ms\n' "$1" $(((${EPOCHREALTIME/./} - ${started/./}) / 1000)) >&3
}

# The database is stopped and started again while site a asks it.
restart() { # <title> <mariadb | postgres>
  resumes "$1: first"
  stop_app "$2"
  # shellcheck disable=SC2030,SC2034  # check_log reads it
  LOG_MAY_SAY=php
  is "$(get b /)" 200
  time_passes 1000
  "run_$2"
  resumes "$1: restarted"
  is "$(grep -c VL0080 "$HTTPD_ROOT/logs/error.log")" 0 "said"
}

# Sessions cannot be seen, and the load of site a is all that the server works for.
charged_by_requests() { # <title>
  local kernel a
  kernel=$(server_us)
  a=$(charged a)
  time_passes 4000
  kernel=$(($(server_us) - kernel))
  a=$((($(charged a) - a) * 1000 / (kernel + 1)))
  printf '# %-40s charged %d.%03d of %d ms\n' "$1" $((a / 1000)) $((a % 1000)) $((kernel / 1000)) >&3
  at_least "$a" 700 "charged, permille of what the kernel counted"
}

begin_asking() {
  is "$(web "$(url a '/sql.php?ms=1')")" asked
  begin_long_load 4 '/sql.php?ms=5'
}

# The first way to reach it is tried in the long form only.
restarts() { # <title> <mariadb | postgres> <line of sql.ini for the socket>...
  if is_long; then
    pages "${@:3}"
    begin_asking
    restart "$1" "$2"
    end_load
  fi
  pages "$3" 'at = 127.0.0.1' "port = $(free_port sql)"
  begin_asking
  restart "$1, TCP" "$2"
  end_load
}

@test "MariaDB: it restarts under load, and is charged again" {
  requires mariadb
  two_pools
  start_mariadb
  restarts MariaDB mariadb 'kind = mariadb' "at = $HTTPD_ROOT/app/run/m"
}

@test "PostgreSQL: it restarts under load, and is charged again" {
  requires postgresql
  two_pools
  start_postgres
  restarts PostgreSQL postgres 'kind = postgresql' "at = $HTTPD_ROOT/app/run" "port = $(free_port sql)"
}

@test "MariaDB: authentication changes under load: it is said once, sites are charged by their requests, and later by sessions" {
  requires mariadb
  two_pools
  # shellcheck disable=SC2030,SC2031  # each test is a shell of its own
  export LOG_MAY_SAY='VL0080|php'
  start_mariadb
  pages 'kind = mariadb' "at = $HTTPD_ROOT/app/run/m"
  begin_asking
  resumes 'root by unix_socket'
  sql "ALTER USER root@localhost IDENTIFIED BY 'secret'"
  stop_app mariadb
  run_mariadb
  # shellcheck disable=SC2317  # called by wait_until
  is_named() { [[ $(status_json | jq -r .sampler.unread) == */m:*'does not let root in'* ]]; }
  wait_until 10 is_named
  wait_until 10 error_log_has VL0080
  charged_by_requests 'root denied'
  is "$(grep -c VL0080 "$HTTPD_ROOT/logs/error.log")" 1 "said"
  MYSQL_PWD=secret sql 'ALTER USER root@localhost IDENTIFIED VIA unix_socket'
  resumes 'root by unix_socket again'
  sql "ALTER USER site_a@localhost IDENTIFIED BY 'secret'"
  is "$(get b /)" 200
  sql "ALTER USER site_a@localhost IDENTIFIED BY ''"
  resumes "the site's password"
  is "$(grep -c VL0080 "$HTTPD_ROOT/logs/error.log")" 1 "said"
  end_load
}

@test "MariaDB with a thread pool does not show its sessions: it is said, and sites are charged by their requests" {
  requires mariadb
  two_pools
  # shellcheck disable=SC2030,SC2031  # each test is a shell of its own
  export LOG_MAY_SAY=VL0080
  start_mariadb --thread-handling=pool-of-threads
  pages 'kind = mariadb' "at = $HTTPD_ROOT/app/run/m"
  begin_asking
  is_named() { [[ $(status_json | jq -r .sampler.unread) == */m:*'which thread works'* ]]; }
  wait_until 10 is_named
  charged_by_requests 'thread pool'
  end_load
}

# A query of b_cron, that no request waits for, beside pages of site a.
charged_by_user() { # <title> <command of b_cron>...
  local before a b all
  before=$(server_us)
  a=$(charged a)
  b=$(charged b)
  "${@:2}" >"$HTTPD_ROOT/cron.out" 2>&1 &
  VL_APPS_SECONDS=4 begin_load a 2 '/sql.php?ms=20'
  wait "$!"
  time_passes 2500
  all=$(($(server_us) - before))
  a=$((($(charged a) - a) * 1000 / all))
  b=$((($(charged b) - b) * 1000 / all))
  printf '# %-40s charged to a 0.%03d, to b 0.%03d of %d ms\n' "$1" "$a" "$b" $((all / 1000)) >&3
  at_least "$b" 150 "charged to the site of b_cron, permille"
  at_least "$a" 150 "charged to the site of the pages, permille"
  at_least $((a + b)) 750 "charged, permille"
}

@test "VhostLimitDatabaseUser: sessions of a user are charged to the site that names it" {
  requires mariadb postgresql
  local run=$HTTPD_ROOT/app/run
  start_in_group -l proxy -l proxy_fcgi -v "$(php_at a "unix:$run/a|fcgi://a/")" -v 'b VhostLimitDatabaseUser b_*'
  start_fpm fpm a="$run/a"
  start_mariadb
  pages 'kind = mariadb' "at = $run/m"
  charged_by_user 'MariaDB' sql 'SET max_statement_time = 4; SELECT BENCHMARK(4000000000, 1 + 1)' b_cron
  stop_app mariadb
  start_postgres
  pages 'kind = postgresql' "at = $run" "port = $(free_port sql)"
  # shellcheck disable=SC2016  # a body of SQL
  charged_by_user 'PostgreSQL' psql_as b_cron -c 'SET statement_timeout = 4000' \
    -c 'DO $$BEGIN LOOP END LOOP; END$$'
}

# Queries that no request waits for.
@test "MariaDB: a query that its page has left is charged to its site, a backup in a pause to none" {
  requires mariadb
  local used a b pid backup
  two_pools
  # shellcheck disable=SC2031  # each test is a shell of its own
  export LOG_MAY_SAY=php
  start_mariadb --max-statement-time=8
  pages 'kind = mariadb' "at = $HTTPD_ROOT/app/run/m"
  cp "$TOP/conf/testbed/pages/burn.php" "$HTTPD_ROOT/htdocs/b"
  for _ in 1 2 3 4; do is "$(web "$(url a '/sql.php?ms=5')")$(web "$(url b '/sql.php?ms=5')")" askedasked; done
  time_passes 1000
  used=$(server_us) a=$(charged a) b=$(charged b)
  web "$(url a '/sql.php?ms=10000')" >"$HTTPD_ROOT/left.out" 2>&1 &
  time_passes 500
  for pid in $(pgrep -P "$(<"$HTTPD_ROOT/app/run/fpm.pid")" -f 'pool a$'); do kill -KILL "$pid"; done
  is "$(web "$(url b '/sql.php?ms=5')")" asked
  VL_APPS_SECONDS=6 begin_load b 2 '/burn.php?ms=10'
  wait "$!"
  used=$(($(server_us) - used)) a=$(($(charged a) - a)) b=$(($(charged b) - b))
  printf '# left: kernel %d ms, charged to a %d, to b %d\n' $((used / 1000)) $((a / 1000)) $((b / 1000)) >&3
  at_least $((a * 1000 / used)) 700 "charged to the site that left its query, permille"
  at_most $((b * 1000 / used)) 150 "charged to the other site, permille"
  time_passes 6000
  used=$(server_us)
  sql 'SET max_statement_time = 3; SELECT BENCHMARK(4000000000, 1 + 1)' >"$HTTPD_ROOT/backup.out" 2>&1 || :
  backup=$(($(server_us) - used)) a=$(charged a) b=$(charged b)
  load_both '/sql.php?ms=2' '/sql.php?ms=2' 1 1
  time_passes 1500
  used=$(($(server_us) - used)) a=$(($(charged a) - a)) b=$(($(charged b) - b))
  printf '# backup: kernel %d ms, with the pages after it %d, charged to a %d, to b %d\n' $((backup / 1000)) $((used / 1000)) $((a / 1000)) $((b / 1000)) >&3
  at_most $((a + b)) $(((used - backup) * 6 / 5)) "charged, us"
}
