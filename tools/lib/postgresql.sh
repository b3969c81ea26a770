# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# A PostgreSQL of the test bed's own: its cluster and its socket lie in bed_dir,
# nothing listens on the network, and the system's one is not touched.

postgresql_program() { # <name>: the newest; packages keep them off PATH
  local path
  path=$(compgen -G "/usr/lib/postgresql/*/bin/$1" | sort -V | tail -n 1) || path=$(command -v "$1") || true
  [[ -n $path ]] || cannot "PostgreSQL's $1 is not installed"
  printf '%s\n' "$path"
}

postgresql_as() { # <command>...: replaces the shell; PostgreSQL refuses to run as root
  server_exec setpriv --reuid postgres --regid postgres --init-groups "$@"
}

postgresql_prepare() {
  local dir=$bed_dir/postgresql
  install -d -m 755 -o postgres -g postgres "$dir"
  (cd "$dir" && postgresql_as "$(postgresql_program initdb)" -D "$dir/data" -A trust -U bed --no-locale -E UTF8) \
    >"$dir/log" 2>&1 || die "initdb failed: $(tail -n 3 "$dir/log")"
  (cd "$dir" && postgresql_as "$(postgresql_program pg_ctl)" -D "$dir/data" -l "$dir/data/log" -w -t 30 \
    -o "-c listen_addresses= -c unix_socket_directories=$dir -c unix_socket_permissions=0777" start) \
    </dev/null >>"$dir/log" 2>&1 || die "PostgreSQL did not start: $(tail -q -n 3 "$dir/log" "$dir/data/log")"
  (postgresql_as "$(postgresql_program psql)" -h "$dir" -U bed -d postgres -q \
    -c 'CREATE TABLE visits (id serial PRIMARY KEY, at timestamptz DEFAULT now(), number int, words text)') ||
    die 'PostgreSQL could not create the table'
}
