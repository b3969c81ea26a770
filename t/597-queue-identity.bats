#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A request belongs to the same site, class and client in the acceptor's queue, at admission and
# at the charge, whatever its spelling.

load lib/live

setup() { requires event; }

# Classes that look at everything that an expression can see, and modules that change a request
# before it is admitted.
start_sites() { # <as start_httpd>...
  start_httpd -l remoteip -t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadLimit 16' -t 'ThreadsPerChild 16' -t 'MaxRequestWorkers 16' \
    -t 'MinSpareThreads 1' -t 'MaxSpareThreads 16' 'VhostLimit On' 'LogLevel notice vhostlimit:trace1' 'ErrorLogFormat "[%m:%l] %M X-N=%{X-N}i"' \
    'RemoteIPHeader X-Forwarded-For' 'RemoteIPInternalProxy 127.0.0.0/8 10.0.0.0/8' 'RequestHeader set X-Class late early' 'SetEnvIf X-N . seen=1' \
    -v "a VhostLimitExempt \"%{REQUEST_URI} == '/health' || %{REQUEST_METHOD} == 'OPTIONS'\"" \
    -v 'a VhostLimitClass api weight=10 "%{REQUEST_URI} =~ m#^/api/#"' -v 'a VhostLimitClass bots weight=1 "%{HTTP_USER_AGENT} =~ /bot/"' \
    -v "a VhostLimitClass lab weight=5 \"-R '192.0.2.0/24'\"" -v "a VhostLimitClass early weight=5 \"%{HTTP:X-Class} =~ /early/\"" \
    -v "a VhostLimitClass env weight=5 \"reqenv('seen') == '1'\"" -v "a VhostLimitClass query weight=5 \"%{QUERY_STRING} =~ /k=/\"" \
    -v 'b VhostLimitKnown Cookie' -v 'b AllowEncodedSlashes NoDecode' -v 'b VhostLimitClass api weight=10 "%{REQUEST_URI} =~ m#^/api/[^/]*$#"' \
    -v "b VhostLimitClass name weight=3 \"%{SERVER_NAME} == 'b.test' && %{SERVER_PORT} == '80'\"" \
    -v 'c AllowEncodedSlashes On' -v 'c MergeSlashes Off' -v 'c VhostLimitAccounts Host' -v 'c ServerAlias *.c.test' \
    -v 'c VhostLimitClass api weight=10 "%{REQUEST_URI} =~ m#^/api/[^/]*/.#"' -v "c VhostLimitClass line weight=10 \"%{THE_REQUEST} =~ m#api#\"" "$@"
}

heads() { perl "$TOP/t/lib/random_heads.pl" "$@"; }   # <as random_heads.pl>...

# Lines "waited as ..., is ..." of the log whose halves are different, and their number in all.
differences() { # <file for the number>
  error_log | perl -ne 'next unless /waited as (.*), is (.*?) X-N=(\S+)/; $n++; my ($was, $is, $head) = ($1, $2, $3);
    print "head $head waited as $was, is $is\n" unless $was eq $is || ($was =~ /^exempt/ && $is =~ /^exempt/);
    END { open my $f, ">", $ARGV[0] // $ENV{NUMBER}; print $f $n // 0 }'
}

heads_agree() { # <number of heads> <seed> [proxy]
  local found
  echo "# seed $2: $(heads "$(httpd_port)" "$@")" >&3
  found=$(NUMBER=$BATS_TEST_TMPDIR/number differences)
  at_least "$(<"$BATS_TEST_TMPDIR/number")" $(($1 / 4)) "heads of which httpd has made a request (seed $2)"
  is "$(head -n 5 <<<"$found")" '' "$(wc -l <<<"$found") heads of seed $2 that waited as another one (random_heads.pl --show)"
}

@test "a request belongs to the site, the class and the client that it waits as, for any head" {
  requires mod_remoteip
  local count=1000
  [[ -z ${VL_LONG:-} ]] || count=100000
  start_sites
  is "$(get b /page.html)" 200
  COOKIE=$(answer_head Set-Cookie)
  export COOKIE=${COOKIE%%;*}
  heads_agree "$count" "${VL_SEED:-$RANDOM}"
}

@test "a request belongs to the site, the class and the client that it waits as, behind PROXY headers" {
  requires mod_remoteip
  local count=300
  [[ -z ${VL_LONG:-} ]] || count=30000
  LOG_MAY_SAY='RemoteIP'
  start_sites -v 'a RemoteIPProxyProtocol On' -v 'a RemoteIPProxyProtocolExceptions 127.0.0.1'
  heads_agree "$count" "${VL_SEED:-$RANDOM}" proxy
}
