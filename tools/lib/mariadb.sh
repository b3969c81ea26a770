# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# A MariaDB of the test bed's own: data and socket lie in bed_dir, nothing
# listens on the network, and the system's one is not touched.

mariadb_socket() { printf '%s/mariadb/socket\n' "$bed_dir"; }

mariadb_prepare() {
  local dir=$bed_dir/mariadb server
  server=$(command -v mariadbd || command -v mysqld || compgen -G '/usr/libexec/mariadbd') || cannot 'MariaDB is not installed'
  install -d -m 755 -o mysql -g mysql "$dir"
  (server_exec mariadb-install-db --no-defaults --user=mysql --datadir="$dir/data" --skip-test-db \
    --auth-root-authentication-method=normal) >"$dir/log" 2>&1 || die "mariadb-install-db failed: $(grep -m 1 ERROR "$dir/log" || tail -n 3 "$dir/log")"
  (server_exec "$server" --no-defaults --user=mysql --datadir="$dir/data" --socket="$dir/socket" \
    --pid-file="$dir/pid" --skip-networking --skip-log-bin) </dev/null >>"$dir/log" 2>&1 &
  poll_until 60 mariadb_sql 'SELECT 1' || die "MariaDB does not answer: $(tail -n 3 "$dir/log")"
}

mariadb_sql() { # <statement>
  (server_exec mariadb --no-defaults --socket="$(mariadb_socket)" -u root -e "$1") >/dev/null 2>&1
}

mariadb_database() { # <name>: an empty one, and the account "bed" that may use it
  mariadb_sql "CREATE DATABASE $1; GRANT ALL ON *.* TO 'bed'@'localhost' IDENTIFIED BY 'bed'" ||
    die "MariaDB could not create the database $1"
}
