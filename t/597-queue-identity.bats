#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A request belongs to the same site, class and client in the acceptor's queue, at admission and
# at the charge, whatever its spelling.

load lib/live

export VHOSTLIMIT_TEST_STATE=engaged    # a dormant server classifies no connection

# Classes that look at everything that an expression can see, and modules that change a request
# before it is admitted.
start_sites() { # <as start_httpd>...
  start_httpd -l remoteip -l proxy "${ONE_CHILD[@]}" 'ProxyRequests On' '<Proxy *>' 'Require all denied' '</Proxy>' 'VhostLimit On' 'LogLevel notice vhostlimit:trace1' 'ErrorLogFormat "[%m:%l] %M X-N=%{X-N}i"' \
    'RemoteIPHeader X-Forwarded-For' 'RemoteIPInternalProxy 127.0.0.0/8 10.0.0.0/8' 'RequestHeader set X-Class late early' 'SetEnvIf X-N . seen=1' \
    -v "a VhostLimitExempt \"%{REQUEST_URI} == '/health' || %{REQUEST_METHOD} == 'OPTIONS'\"" \
    -v 'a VhostLimitClass api weight=10 "%{REQUEST_URI} =~ m#^/api/#"' -v 'a VhostLimitClass bots weight=1 "%{HTTP_USER_AGENT} =~ /bot/"' \
    -v "a VhostLimitClass lab weight=5 \"-R '192.0.2.0/24'\"" -v "a VhostLimitClass early weight=5 \"%{HTTP:X-Class} =~ /early/\"" \
    -v "a VhostLimitClass env weight=5 \"reqenv('seen') == '1'\"" -v "a VhostLimitClass query weight=5 \"%{QUERY_STRING} =~ /k=/\"" \
    -v 'b VhostLimitKnown Cookie' -v 'b AllowEncodedSlashes NoDecode' -v 'b VhostLimitClass api weight=10 "%{REQUEST_URI} =~ m#^/api/[^/]*$#"' \
    -v "b VhostLimitClass name weight=3 \"%{SERVER_NAME} == 'b.test' && %{SERVER_PORT} == '80'\"" -v 'b VhostLimitClass file weight=3 "%{REQUEST_FILENAME} =~ /./"' \
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
  requires mod_remoteip mod_proxy
  local count=1000
  [[ -z ${VL_LONG:-} ]] || count=100000
  start_sites
  is "$(get b '/cgi/cookies.sh?private')" 200
  COOKIE=$(answer_head Set-Cookie)
  export COOKIE=${COOKIE%%;*}
  heads_agree "$count" "${VL_SEED:-$RANDOM}"
}

@test "a request belongs to the site, the class and the client that it waits as, behind PROXY headers" {
  requires mod_remoteip mod_proxy
  local count=300
  [[ -z ${VL_LONG:-} ]] || count=30000
  # shellcheck disable=SC2034  # check_log reads it
  LOG_MAY_SAY='RemoteIP'
  start_sites -v 'a RemoteIPProxyProtocol On' -v 'a RemoteIPProxyProtocolExceptions 127.0.0.1'
  heads_agree "$count" "${VL_SEED:-$RANDOM}" proxy
}

# One slot, behind a proxy that names the client in X-Forwarded-For.
start_shared() { # <line of a>...
  local args=()
  while (($#)); do args+=(-v "a $1"); shift; done
  start_httpd -l remoteip "${ONE_CHILD[@]}" 'VhostLimit On' 'VhostLimitSlots 1' 'RemoteIPHeader X-Forwarded-For' \
    'RemoteIPInternalProxy 127.0.0.0/8' -v 'a AllowEncodedSlashes NoDecode' "${args[@]}"
}

# Prints the part of the answers, in hundredths, that the first of two groups gets.
part_of() { # <connections> <target> <X-Forwarded-For> <connections> <target> <X-Forwarded-For>
  local got form='%s:GET %s HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: %s' first second
  # shellcheck disable=SC2059  # the format is above
  printf -v first "${form//\\/\\\\}" "$1" "$2" "$3"
  # shellcheck disable=SC2059
  printf -v second "${form//\\/\\\\}" "$4" "$5" "$6"
  got=$(perl "$TOP/t/lib/share.pl" "$(httpd_port)" 400 "$first" "$second")
  echo "# $2 $3: $got" >&3
  read -r got _ <<<"$got"
  echo "$got"
}

# With a share for each connection it would get half of the answers.
# On a busy machine the twenty clients do not always ask again in time, so it is asked up to three times.
has_its_part() { # <target> <X-Forwarded-For>
  local part
  for _ in 1 2 3; do
    part=$(part_of 20 "$1" "$2" 20 /cgi/echo.sh/x 192.0.2.%d)
    ((part > 33)) || return 0
  done
  fail "$part % of the answers for $1, X-Forwarded-For: $2"
}

@test "one client with 20 connections gets its part beside 20 clients, whatever it writes into its requests" {
  requires mod_remoteip
  local page=/cgi/echo.sh/x target list
  start_shared
  for target in "$page" /cgi/echo.sh/a%2Fb /cgi/%65cho.sh/x "http://a.test:$(httpd_port)$page"; do
    has_its_part "$target" 198.51.100.1
  done
  for list in 'x, 198.51.100.1' 'unknown,198.51.100.1' '192.0.2.%d, 198.51.100.1'; do
    has_its_part "$page" "$list"
  done
}

# Prints how many answers twenty visitors get beside forty connections of one client.
visitors_beside() { # <head of the client>
  local got visitor='GET /cgi/echo.sh/x HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.%d'
  got=$(perl "$TOP/t/lib/share.pl" "$(httpd_port)" 1s "20:$visitor" "40:$1")
  echo "# ${1:0:60}: $got" >&3
  cut -d ' ' -f 2 <<<"$got"
}

@test "a flood of heads that httpd refuses or that cannot be parsed does not win over visitors" {
  requires mod_remoteip
  local from='\r\nX-Forwarded-For: 198.51.100.1' ordinary head
  start_shared
  ordinary=$(visitors_beside "GET /cgi/echo.sh/x HTTP/1.1\r\nHost: a.test$from")
  for head in 'GET /cgi/echo.sh/x\r\nHost: a.test' 'GET /x y HTTP/1.1\r\nHost: a.test' 'GET /x HTTP/1.1\r\nHost: a.test\r\nHost: a.test' \
    'GET /x HTTP/9.1\r\nHost: a.test' 'GET /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: x' "GET /x HTTP/1.1\r\nHost: a.test\r\nX: $(printf '%09000d' 0)" 'x\r\n' 'PRI * HTTP/2.0'; do
    at_least "$(visitors_beside "$head$from")" $((ordinary / 3)) "answers of visitors beside $(printf '%.60s' "$head")"
  done
}

@test "a class is the same for every spelling of its path" {
  requires mod_remoteip
  local path=/cgi/echo.sh/api target part
  start_shared 'VhostLimitClass api weight=10 "%{REQUEST_URI} =~ m#^/cgi/echo.sh/api/#"'
  for target in "$path/a%2Fb" /cgi/echo.sh/%61pi/x /cgi/echo.sh//api/x "http://a.test$path/x"; do
    part=$(part_of 20 "$target" 192.0.2.%d 20 "$path/x" 198.51.100.%d)
    at_least "$part" 35 "% of the answers for $target"
    at_most "$part" 65 "% of the answers for $target"
  done
}
