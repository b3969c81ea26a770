# SPDX-License-Identifier: Apache-2.0
#
# The control socket of the test's server, through vhostlimitctl and directly.

control_socket() { printf '%s\n' "$HTTPD_ROOT/run/vhostlimit.sock"; }

CTL=${VL_BUILD_DIR:-$TOP}/ctl/vhostlimitctl
need_ctl() { [[ -x $CTL ]] || { echo "vhostlimitctl is not built (--disable-vhostlimitctl)"; return 1; }; }
ctl() { "$CTL" -s "$(control_socket)" "$@"; }  # <word>...

# Sends bytes, as for printf, and prints the answer.
ask() { # <text>
  # shellcheck disable=SC2016  # perl's own
  control_perl 'alarm 20; syswrite($s, $text); print while <$s>;' "$1"
}

# Sends bytes and keeps the connection open; prints the answer until its end.
ask_half() { # <text>
  # shellcheck disable=SC2016  # perl's own
  control_perl 'alarm 20; syswrite($s, $text) if length $text; print while <$s>; print "closed\n";' "$1"
}

control_perl() { # <perl code that has $s and $text> <text as printf takes it>
  # shellcheck disable=SC2016  # perl's own
  perl -MSocket -e 'my ($path, $text) = @ARGV; $text =~ s/\\n/\n/g; $text =~ s/\\t/\t/g; $text =~ s/\\0/\0/g;
    socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die "$!\n"; connect($s, pack_sockaddr_un($path)) or die "$!\n";'"$1" \
    "$(control_socket)" "$2"
}

error_of() { ask "$1" | jq -r .error; }  # <text>

# Prints a field of one vhost from the control socket.
control_of() { ask "status\t$1.test\n" | jq -r ".vhosts[0].$2"; }  # <vhost> <jq path>

as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
