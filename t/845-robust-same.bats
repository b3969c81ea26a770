#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A large, mixed set of requests gets the same bytes from a server with the module and from
# plain Apache, except for dates.

load lib/live

with_everything() { # <as configure_httpd>...
  configure_httpd -l auth_basic -l authn_core -l authn_file -l authz_user -l authz_host -l deflate -l filter -l negotiation -l autoindex -l rewrite \
    -l proxy -l proxy_http -l include -l dav -l dav_fs -l expires -l http2 -l reqtimeout 'MaxKeepAliveRequests 100' 'KeepAliveTimeout 2' 'Timeout 300' 'Protocols h2c http/1.1' \
    'ProxyTimeout 30' "DavLockDB $HTTPD_ROOT/run/dav" 'RequestReadTimeout header=5 body=5' 'TraceEnable on' -v "a $(site_of_everything)" "$@"
}

site_of_everything() {
  cat <<END
    AddOutputFilterByType DEFLATE text/plain text/html
    AddType text/plain .txt
    AddOutputFilter INCLUDES .shtml
    AddLanguage de .de
    AddLanguage en .en
    ExpiresActive on
    ExpiresDefault "access plus 1 hour"
    Redirect 301 /old /page.html
    RedirectMatch 302 ^/moved/(.*) /sub/\$1
    Redirect gone /gone
    RewriteEngine on
    RewriteRule ^/rewritten\$ /page.html [PT]
    ErrorDocument 404 /sorry.html
    ProxyPass /proxy/ http://127.0.0.1:$(httpd_port)/plain/ ttl=1
    ProxyPass /dead/ http://127.0.0.1:1/ retry=0
    <Directory "$HTTPD_ROOT/htdocs/a">
      Options +MultiViews +Indexes
    </Directory>
    <Location /private>
      AuthType Basic
      AuthName private
      AuthBasicProvider file
      AuthUserFile "$HTTPD_ROOT/users"
      Require valid-user
    </Location>
    <Files secret.txt>
      Require all denied
    </Files>
    <Location /dav>
      Dav on
    </Location>
END
}

fill_site() {
  local a=$HTTPD_ROOT/htdocs/a
  mkdir -p "$a"/{private,list,dav,plain} "$HTTPD_ROOT/htdocs/main/plain"
  # shellcheck disable=SC2016  # a hash of "pass"
  echo 'user:{SHA}nU4eI71bcnBGqeO0t9tXvY1u5oQ=' >"$HTTPD_ROOT/users"
  seq 1 4000 >"$a/text.txt"
  gzip -nc "$a/text.txt" >"$a/text.txt.gz"
  cp "$a/page.html" "$a/text.txt" "$HTTPD_ROOT/htdocs/main/plain/"
  cp "$a/page.html" "$a/private/index.html"
  echo hallo >"$a/neg.html.de"; echo hello >"$a/neg.html.en"
  echo secret >"$a/secret.txt"
  touch "$a/list/one.txt" "$a/list/two.html"
  chmod 777 "$a/dav"
  find "$HTTPD_ROOT/htdocs" "$HTTPD_ROOT/cgi" -exec touch -d '2020-01-01' {} +    # tags of new files are weak
}

# Writes the responses to all requests of the set, over HTTP/1 and HTTP/2.
answers_to() { # <file>
  rm -f "$HTTPD_ROOT"/htdocs/a/dav/new
  touch -d 2020-01-01 "$HTTPD_ROOT/htdocs/a/dav"
  perl "$TOP/t/lib/compare_requests.pl" "$(httpd_port)" >"$1" 
  over_http2 | without_chance >>"$1"
}

# The boundary of parts contains the time and a pid, whose length varies.
without_chance() {
  perl -00 -pe 's/^((date|expires|allow): ).*/$1-/gim; s/^(content-length: )\d+/$1-/gim if /^content-type: multipart/im;
    s/boundary=[0-9a-f]+/boundary=-/g; s/^--[0-9a-f]{10,}/--/gm'
}

# Sends a body only to a program that reads it: a stream that is answered before its body
# is reset, and the reset may overtake the response, on plain Apache too.
over_http2() {
  local path arguments=() more
  for path in / /page.html /nope /sub /private/ /neg /list/ /secret.txt /cgi/fail.sh /cgi/redirect.sh /proxy/page.html /dead/ /old /gone /text.txt; do
    for more in '-r 0-9' '-r 0-3,10-12' '-I' '-X PUT' '-u user:pass' '-H If-None-Match:*' '-H Accept-Encoding:gzip' '-X OPTIONS'; do
      # shellcheck disable=SC2206  # an option and its value
      arguments+=(-i $more -s "$(url a "$path")" --next)
    done
  done
  arguments+=(-i -d body -s "$(url a /cgi/echo.sh)" --next)
  web --http2-prior-knowledge "${arguments[@]}" -s -i "$(url a /page.html)" | tr -d '\r' | tr -c '\n\t -~' '?'
}

are_equal() { # <file> <file>
  try diff -a "$1" "$2"
  is "$output" '' "difference"
}

@test "a thousand requests of all kinds get the same bytes as from plain Apache, also while requests are queued" {
  requires mod_http2 curl_http2 mod_dav_fs mod_deflate mod_proxy_http mod_negotiation mod_include
  local dir=$BATS_TEST_TMPDIR
  mkdir -p "$HTTPD_ROOT"
  with_everything -n
  fill_site
  launch_httpd
  answers_to "$dir/plain"
  stop_httpd
  at_least "$(grep -c '^### ' "$dir/plain")" 700 "connections"
  at_least "$(grep -aoE '(^|[^ ])HTTP/(1.1|2) [1-5][0-9][0-9]' "$dir/plain" | wc -l)" 900 "answers"

  with_everything 'VhostLimit On' 'VhostLimitQueue 100 300s' -v 'c VhostLimitConcurrency 1'
  launch_httpd
  answers_to "$dir/on"
  are_equal "$dir/plain" "$dir/on"

  # With a queued request, connections return to the acceptor after each response.
  sed -i 's/timeout 60/timeout 300/' "$HTTPD_ROOT/cgi/hold.sh"
  hold_request busy c --max-time 300
  begin_request waits c /page.html --max-time 300
  settles c waiting 1
  answers_to "$dir/waiting"
  is "$(status_of c waiting)" 1 "the request is still queued"
  are_equal "$dir/plain" "$dir/waiting"
}
