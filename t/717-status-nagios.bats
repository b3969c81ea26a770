#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# conf/check_vhostlimit: state, exit status and performance data, from a real page and
# from canned ones.

load lib/live

check() { # <option>...
  try "$TOP/conf/check_vhostlimit" -u "$page" "$@"
}

# A page with sites of so many requests that wait, with queues of 100.
canned() { # <name>:<waiting>:<deferred>:<limited_s>...
  local site name waiting deferred limited
  page=file://$BATS_TEST_TMPDIR/page
  {
    printf '{"schema":1,"workers":20,"vhosts":[\n'
    for site; do
      IFS=: read -r name waiting deferred limited <<<"$site"
      printf '{"name":"%s.test:80","mode":"on","running":2,"waiting":%d,"deferred":%d,"queue":100,"refused":3,"limited_s":%d,"classes":[{"waiting":77}]},\n' \
        "$name" "$waiting" "$deferred" "$limited"
    done
  } >"$BATS_TEST_TMPDIR/page"
}

@test "a server without limited sites is OK, with performance data" {
  start_httpd 'VhostLimit On'
  get a / >/dev/null
  page=http://127.0.0.1:$(httpd_port)/vhostlimit
  check -H "status.test:$(httpd_port)"
  is "$status" 0
  like "${lines[0]}" '^VHOSTLIMIT OK - 4 sites, 0 limited, 0 requests running, 0 waiting\|sites=4 limited=0 running=0;;;0;[0-9]+ waiting=0 deferred=0 refused=0c$'
  is "${#lines[@]}" 1 "lines"
}

@test "a queue above its thresholds: WARNING and CRITICAL; -v checks one site only" {
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 2 60s'
  page=http://127.0.0.1:$(httpd_port)/vhostlimit
  hold_request busy a
  begin_request waits a /page.html
  settles a waiting 1
  check -H "status.test:$(httpd_port)" -w 50
  is "$status" 1
  like "${lines[0]}" '^VHOSTLIMIT WARNING - 4 sites, .* 1 requests running, 1 waiting'
  is "${lines[1]}" "WARNING: a.test uses 50 % of its queue (1 waiting, 0 unread, VhostLimitQueue 2)"
  check -H "status.test:$(httpd_port)" -w 40 -c 50
  is "$status" 2
  like "${lines[0]}" '^VHOSTLIMIT CRITICAL '
  check -H "status.test:$(httpd_port)" -w 50 -v "b.test"
  is "$status" 0
  like "${lines[0]}" '- 1 sites, 0 limited'
  release_request busy
}

@test "sites limited for long, many limited sites, and a full queue: WARNING and CRITICAL" {
  canned a:0:0:0 b:0:0:3599
  check
  is "$status" 0
  canned a:0:0:0 b:0:0:3600
  check
  is "$status ${lines[1]}" '1 WARNING: b.test:80 has been limited for 3600 s'
  check -l 0
  is "$status" 0 "no limit of time"
  canned a:90:10:5 b:0:0:0
  check
  is "$status ${lines[1]}" '2 CRITICAL: a.test:80 uses 100 % of its queue (90 waiting, 10 unread, VhostLimitQueue 100)'
  canned a:0:0:5 b:0:0:5 c:0:0:0 d:0:0:0
  check
  is "$status ${lines[1]}" '2 CRITICAL: 2 of 4 sites are limited at once: the server is too small, or a back end of many sites is slow'
  check -m 0
  is "$status" 0
  check -m 51
  is "$status" 0
}

@test "a site may have thresholds of its own, and its own performance data" {
  canned a:50:0:0 b:50:0:0
  check --site a.test:80=40,60 --site b.test:80=60,70
  is "$status ${lines[1]} ${#lines[@]}" '1 WARNING: a.test:80 uses 50 % of its queue (50 waiting, 0 unread, VhostLimitQueue 100) 2'
  check --site a.test:80=40,50
  is "$status" 2
  check -v a.test:80 --site a.test:80=40,60
  is "$status ${lines[0]}" '1 VHOSTLIMIT WARNING - 1 sites, 0 limited, 2 requests running, 50 waiting|running=2;;;0;20 waiting=50;40;60;0;100 deferred=0 refused=3c queue=50%;40;60;0;100 cpu=0.0% wait_p99=0.000s limited=0s'
  check --site c.test=1,2
  is "$status $output" '3 VHOSTLIMIT UNKNOWN - there is no site c.test, which --site names'
  local value
  for value in a.test a.test=1 a.test=1,x =1,2; do
    check --site "$value"
    is "$status" 3 "$value"
    like "$output" 'is not NAME=WARNING,CRITICAL'
  done
}

@test "a page that another directive has taken is CRITICAL, with the status and the cause" {
  start_httpd 'VhostLimit On' -v 'a Redirect 301 /gone http://a.test/new' -v 'a Redirect 404 /none'
  page=http://127.0.0.1:$(httpd_port)/gone
  check -H a.test
  is "$status" 2
  like "$output" "^VHOSTLIMIT CRITICAL - $page cannot be read: status 301: another directive of that virtual host takes the address"
  page=http://127.0.0.1:$(httpd_port)/none
  check -H a.test
  is "$status" 2
  like "$output" "^VHOSTLIMIT CRITICAL - $page cannot be read: status 404: another directive"
}

@test "no answer is CRITICAL; another page, another schema, an unknown site and wrong options are UNKNOWN" {
  page=http://127.0.0.1:1/
  check
  is "$status" 2
  like "$output" '^VHOSTLIMIT CRITICAL - http://127\.0\.0\.1:1/ cannot be read: curl: '
  canned a:0:0:0
  check -v unknown:80
  is "$status $output" '3 VHOSTLIMIT UNKNOWN - there is no site unknown:80'
  sed -i 's/"schema":1/"schema":2/' "$BATS_TEST_TMPDIR/page"
  check
  is "$status" 3
  like "$output" 'schema 2, this check reads schema 1'
  echo '<html>It works!</html>' >"$BATS_TEST_TMPDIR/page"
  check
  is "$status" 3
  like "$output" '^VHOSTLIMIT UNKNOWN - the answer is not the \?json form'
  local words
  for words in '-x' '-w' '-w many' 'argument'; do
    # shellcheck disable=SC2086  # words
    try "$TOP/conf/check_vhostlimit" $words
    is "$status" 3
    is "${#lines[@]}" 1 "lines"
    like "$output" "Try 'check_vhostlimit --help'"
  done
}

@test "help and version print to stdout and end with 0; the version is the module's" {
  try "$TOP/conf/check_vhostlimit" --help
  is "$status" 0
  like "$output" 'Usage:   check_vhostlimit'
  try "$TOP/conf/check_vhostlimit" --version
  is "$status $output" "0 check_vhostlimit (mod_vhostlimit) $(sed -n 's/^AC_INIT(\[mod_vhostlimit\], \[\(.*\)\])$/\1/p' "$TOP/configure.ac")"
}
