#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# VhostLimitSandbox Full with its defaults: databases, mail, fonts, locales and TLS, each with
# the distribution's own package.
#
# needs: fonts

load lib/live
load lib/sandbox
load lib/services

setup() { requires root userns landlock; }

teardown() { all_of end_service end_server; }

need_fontconfig()   { [[ $(fc-match -f '%{family}' DejaVuSans 2>&1) == *DejaVu* ]] || { echo "no fontconfig with the font DejaVu"; return 1; }; }
need_certificates() { [[ -e /etc/ssl/certs/ca-certificates.crt ]] || { echo "no /etc/ssl/certs/ca-certificates.crt"; return 1; }; }

# Runs the lines on standard input as a program of the site; prints what it writes.
in_full() {
  [[ -e $HTTPD_ROOT/run/httpd.pid ]] || start_httpd 'VhostLimit On' "$PROGRAMS" -v 'a VhostLimitSandbox Full'
  site_program a ask.sh
  run_program a ask.sh
}

@test "a program talks to MariaDB through its socket" {
  requires mariadb
  start_mariadb
  is "$(in_full <<<'mariadb --no-defaults -u root -S /run/mysqld/mysqld.sock -N -e "SELECT 6 * 7"')" 42
}

postgresql_program() { compgen -G "/usr/lib/postgresql/*/bin/$1" | sort -V | tail -n 1 || command -v "$1"; }  # <name>

@test "a program talks to PostgreSQL through its socket" {
  requires postgresql
  local data=$BATS_TEST_TMPDIR/postgresql as=(setpriv --reuid postgres --regid postgres --init-groups)
  install -d -m 755 -o postgres -g postgres /run/postgresql
  install -d -m 700 -o postgres -g postgres "$data"
  chmod a+x "$BATS_TEST_TMPDIR" "${BATS_TEST_TMPDIR%/*}" "${BATS_TEST_TMPDIR%/*/*}"
  (cd "$data" && "${as[@]}" "$(postgresql_program initdb)" -D "$data" -A trust -U bed --no-locale -E UTF8) >"$BATS_TEST_TMPDIR/log" 2>&1
  (cd "$data" && exec "${as[@]}" "$(postgresql_program postgres)" -D "$data" -c listen_addresses= \
    -c unix_socket_directories=/run/postgresql) </dev/null >>"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
  service=$!
  wait_until 60 "$(postgresql_program psql)" -h /run/postgresql -U bed -d postgres -c 'SELECT 1'
  is "$(in_full <<<"'$(postgresql_program psql)' -h /run/postgresql -U bed -d postgres -At -c 'SELECT 6 * 7'")" 42
}

@test "a program sends mail with sendmail" {
  requires msmtp
  local port
  port=$(free_port smtp)
  mail_to_port "$port"
  receive_mail "$port" >"$BATS_TEST_TMPDIR/mail" 3>&- &
  service=$!
  is "$(in_full <<<"printf 'Subject: from the sandbox\n\nhello\n' | $(type -P sendmail || type -P msmtp) -i visitor@b.test && echo sent")" sent
  wait "$service"
  service=''
  like "$(<"$BATS_TEST_TMPDIR/mail")" $'Subject: from the sandbox.*\n.*hello'
}

@test "a program finds the fonts of the system" {
  requires fontconfig
  like "$(in_full <<<'fc-match -f "%{file}\n" DejaVuSans | xargs head -c 4 | od -An -tx1')" '00 01 00 00'
}

@test "a program has the locales of the system" {
  local name
  name=$(locale -a | grep -iE 'utf-?8$' | sed -n 1p)
  [[ -n $name ]] || skip "no locale with UTF-8"
  is "$(in_full <<<"LC_ALL=$name locale charmap")" UTF-8
  is "$(in_full <<<'locale -a')" "$(locale -a)"
  is "$(in_full <<<'TZ=Asia/Tokyo date -d @0 +%H:%M')" "$(TZ=Asia/Tokyo date -d @0 +%H:%M)"
}

@test "a program trusts the certificates of the system in TLS" {
  requires openssl certificates
  local port dir=$BATS_TEST_TMPDIR
  port=$(free_port https)
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout "$dir/key" -out "$dir/cert" 2>/dev/null
  openssl s_server -accept "127.0.0.1:$port" -key "$dir/key" -cert "$dir/cert" -www >"$dir/log" 2>&1 3>&- &
  service=$!
  wait_until 20 curl -sk -o /dev/null "https://127.0.0.1:$port/"
  like "$(in_full <<<"curl -sS https://localhost:$port/ -o /dev/null && echo trusted")" 'certificate'
  cat "$dir/cert" >>/etc/ssl/certs/ca-certificates.crt
  is "$(in_full <<<"curl -sS https://localhost:$port/ -o /dev/null && echo trusted")" trusted
}
