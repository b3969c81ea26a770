# SPDX-License-Identifier: Apache-2.0
#
# Services that programs of sites use, each from the distribution's own package.

need_msmtp()   { need_program msmtp; }

# Ends the service that was started last.
end_service() {
  if [[ -n ${service-} ]] && kill "$service"; then wait "$service" || :; fi
  service=''
}

# A MariaDB at its usual socket, with an account root that has no password.  Sets service.
start_mariadb() {
  local server log=$BATS_TEST_TMPDIR/mariadb.log
  server=$(command -v mariadbd || command -v mysqld || compgen -G '/usr/libexec/mariadbd')
  install -d -m 755 -o mysql -g mysql /run/mysqld "$BATS_TEST_TMPDIR/mariadb"
  chmod a+x "$BATS_TEST_TMPDIR" "${BATS_TEST_TMPDIR%/*}" "${BATS_TEST_TMPDIR%/*/*}"
  mariadb-install-db --no-defaults --user=mysql --datadir="$BATS_TEST_TMPDIR/mariadb/data" --skip-test-db \
    --auth-root-authentication-method=normal >"$log" 2>&1
  "$server" --no-defaults --user=mysql --datadir="$BATS_TEST_TMPDIR/mariadb/data" --socket=/run/mysqld/mysqld.sock \
    --pid-file="$BATS_TEST_TMPDIR/mariadb/pid" --skip-networking --skip-log-bin </dev/null >>"$log" 2>&1 3>&- &
  service=$!
  wait_until 60 mariadb --no-defaults -u root -S /run/mysqld/mysqld.sock -e 'SELECT 1'
}

# Lets msmtp, which is sendmail then, send to a port of this machine.
mail_to_port() { # <port>
  printf '%s\n' 'account default' 'host 127.0.0.1' "port $1" 'from site@a.test' 'auth off' 'tls off' >/etc/msmtprc
  chmod 644 /etc/msmtprc
}

# Receives one message by SMTP and prints it.
receive_mail() { # <port>
  # shellcheck disable=SC2016  # perl's own
  perl -MIO::Socket::INET -e '$| = 1;
    my $listen = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], ReuseAddr => 1) or die $!;
    my $c = $listen->accept; my $in_data = 0; print $c "220 mail.test\r\n";
    while (<$c>) {
      if ($in_data) { print; if (/^\.\r?$/) { $in_data = 0; print $c "250 taken\r\n" } next }
      if (/^DATA/i) { $in_data = 1; print $c "354 go on\r\n"; next }
      if (/^QUIT/i) { print $c "221 end\r\n"; last }
      print $c "250 yes\r\n";
    }' "$1"
}
