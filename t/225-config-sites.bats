#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Sites: which virtual hosts share limits, and the errors of `apachectl configtest` (httpd
# -t) and of the start if their limits differ.

load lib/common
load lib/httpd

setup() { mkdir -p "$HTTPD_ROOT"; }

# Adds a second virtual host with the name of a.test, on another address.
second() { # <line>...: options of configure_httpd
  local line
  printf '%s\0' -x "<VirtualHost 127.0.0.2:$(httpd_port)>" -x "ServerName ${NAME:-a.test}"
  for line; do printf '%s\0' -x "$line"; done
  printf '%s\0' -x '</VirtualHost>'
}

# Configures the server with a second virtual host of a.test. Options of configure_httpd
# stand before "--", the lines of the second virtual host after it.
configure_both() {
  local options=() more=()
  while [[ $1 != -- ]]; do options+=("$1"); shift; done
  shift
  mapfile -d '' -t more < <(second "$@")
  configure_httpd "${options[@]}" "${more[@]}"
}

line_of() { grep -nF -- "$1" "$HTTPD_ROOT/httpd.conf" | cut -d : -f 1; }  # <text>

accepted() {
  try "$(httpd_program)" -t -f "$HTTPD_ROOT/httpd.conf"
  is "$status" 0 "$output"
}

# The configuration test and the start both fail with the message.
refused() { # <regular expression>
  try "$(httpd_program)" -t -f "$HTTPD_ROOT/httpd.conf"
  is "$status" 1 "httpd -t: $output"
  like "$output" "$1" "what httpd -t says"
  try "$(httpd_program)" -f "$HTTPD_ROOT/httpd.conf" -k start
  isnt "$status" 0 "httpd -k start"
  like "$output" "$1" "what the start says"
}

# The message names both lines, in the order of the file.
refused_for() { # <site> <first line> <second line>
  local first second
  first=$(line_of "$2" | sed -n 1p)
  second=$(line_of "$3" | sed -n '$p')
  refused "VL0015: site $1: ${2%% *} is ${2#* } in .*/httpd\.conf:$first and ${3#* } in .*/httpd\.conf:$second\. .*does not start"
}

@test "two values of a limit in one site stop the start; the error names both lines" {
  configure_both 'VhostLimit On' -v 'a VhostLimitWeight 200' -- 'VhostLimitWeight 300'
  refused_for 'a\.test' 'VhostLimitWeight 200' 'VhostLimitWeight 300'
}

@test "values of each directive are compared within a site" {
  local pair
  for pair in 'VhostLimit:On:DryRun' 'VhostLimitConcurrency:1:2' 'VhostLimitQueue:5:6' 'VhostLimitQueue:5 1s:5 2s' \
    'VhostLimitCPU:10%:20%' 'VhostLimitMemory:64M:65M' 'VhostLimitProcesses:5:none' 'VhostLimitIO:10M:none' \
    'VhostLimitStatusCode:429:503' 'VhostLimitRetryAfter:off:5' 'VhostLimitClients:On:Off' 'VhostLimitClients:On 24:On 32' \
    'VhostLimitKnown:Address:Cookie' 'VhostLimitKnown:Address share=50:Address' 'VhostLimitAccounts:Host:Vhost' \
    'VhostLimitAccounts:Host max=5:Host'; do
    local name values
    IFS=: read -r name values <<<"$pair"
    configure_both -v "a $name ${values%:*}" -- "$name ${values#*:}"
    refused_for 'a\.test' "$name ${values%:*}" "$name ${values#*:}"
  done
}

@test "classes of a site are compared one by one; the error names the first difference" {
  local same="VhostLimitClass shop weight=300 \"%{REQUEST_URI} == '/shop'\""
  configure_both 'VhostLimit On' -v "a $same" -- "$same"
  accepted
  configure_both 'VhostLimit On' -v "a $same" -v 'a VhostLimitClass api weight=50 true' -- "$same" 'VhostLimitClass api weight=60 true'
  refused_for 'a\.test' 'VhostLimitClass api weight=50 true' 'VhostLimitClass api weight=60 true'
  configure_both 'VhostLimit On' -v 'a VhostLimitClass api weight=50 true' -- 'VhostLimitClass api weight=50 false'
  refused_for 'a\.test' 'VhostLimitClass api weight=50 true' 'VhostLimitClass api weight=50 false'
  configure_both 'VhostLimit On' -v 'a VhostLimitClass one weight=50 true' -- 'VhostLimitClass one weight=50 true' 'VhostLimitClass two weight=50 true'
  refused_for 'a\.test' 'VhostLimitClass one weight=50 true' 'VhostLimitClass two weight=50 true'
}

@test "equal values and different limits are no conflict" {
  configure_both 'VhostLimit On' -v 'a VhostLimitMemory 1G' -v 'a VhostLimitQueue 50' -- 'VhostLimitMemory 1024M' \
    'VhostLimitQueue 50 5s' 'VhostLimitWeight 300'
  accepted
}

@test "a value at server level is a default and conflicts with no other value" {
  configure_both 'VhostLimit On' 'VhostLimitWeight 100' 'VhostLimitConcurrency 7' -v 'a VhostLimitWeight 200' \
    -- 'VhostLimitConcurrency 5'
  accepted
}

@test "values at server level are defaults for the main server's own site too" {
  NAME=main.test configure_both 'VhostLimit On' 'VhostLimitWeight 100' -- 'VhostLimitWeight 200'
  accepted
}

@test "case, scheme and port of a ServerName do not distinguish sites" {
  local name
  for name in A.TEST https://a.test:8443 a.test:8080; do
    NAME=$name configure_both 'VhostLimit On' -v 'a VhostLimitWeight 200' -- 'VhostLimitWeight 300'
    refused_for 'a\.test' 'VhostLimitWeight 200' 'VhostLimitWeight 300'
  done
}

@test "ServerAlias does not join sites" {
  NAME=other.test configure_both 'VhostLimit On' -v 'a VhostLimitWeight 200' -- 'ServerAlias a.test' 'VhostLimitWeight 300'
  accepted
}

@test "a ServerName from an included file or a macro names the site" {
  requires mod_macro
  echo 'ServerName a.test' >"$HTTPD_ROOT/name.conf"
  configure_httpd -l macro 'VhostLimit On' -v 'a VhostLimitWeight 200' -x "<VirtualHost 127.0.0.2:$(httpd_port)>" \
    -x "Include $HTTPD_ROOT/name.conf" -x 'VhostLimitWeight 300' -x '</VirtualHost>'
  refused_for 'a\.test' 'VhostLimitWeight 200' 'VhostLimitWeight 300'
  # shellcheck disable=SC2016  # a variable of mod_macro
  configure_httpd -l macro 'VhostLimit On' -v 'a VhostLimitWeight 200' -x '<Macro Site $name>' \
    -x "<VirtualHost 127.0.0.2:$(httpd_port)>" -x 'ServerName $name' -x 'VhostLimitWeight 300' -x '</VirtualHost>' \
    -x '</Macro>' -x 'Use Site b.test' -x 'Use Site a.test'
  refused 'VL0015: site a\.test: VhostLimitWeight is 200 in .*/httpd\.conf:[0-9]+ and 300 in macro .site. .*:3\. The'
}

@test "virtual hosts without ServerName are separate sites" {
  local lines=() port weight=100
  for port in "$(free_port one)" "$(free_port two)"; do
    weight=$((weight + 1))
    lines+=(-x "<VirtualHost *:$port>" -x "VhostLimitWeight $weight" -x '</VirtualHost>')
  done
  configure_httpd 'VhostLimit On' "${lines[@]}"      # httpd names both after the main server
  accepted
}

@test "values of a limit are compared within a group" {
  configure_httpd 'VhostLimit On' -v 'a VhostLimitGroup one' -v 'b VhostLimitGroup one' \
    -v 'a VhostLimitWeight 200' -v 'b VhostLimitWeight 300'
  refused_for '@one' 'VhostLimitWeight 200' 'VhostLimitWeight 300'
  configure_httpd 'VhostLimit On' -v 'a VhostLimitGroup one' -v 'b VhostLimitGroup one' -v 'b VhostLimitWeight 300'
  accepted
}

@test "a site in two groups stops the start" {
  configure_both 'VhostLimit On' -v 'a VhostLimitGroup one' -- 'VhostLimitGroup two'
  refused_for 'a\.test' 'VhostLimitGroup one' 'VhostLimitGroup two'
}

@test "limits in a virtual host with VhostLimit Off are ignored for its site" {
  configure_both 'VhostLimit On' -v 'a VhostLimitGroup one' -v 'a VhostLimitWeight 200' -- 'VhostLimit Off' \
    'VhostLimitGroup two' 'VhostLimitWeight 300'
  accepted
}

@test "VhostLimitGroup outside of <VirtualHost> is an error" {
  configure_httpd 'VhostLimit On' 'VhostLimitGroup one'
  refused 'VhostLimitGroup: outside of <VirtualHost> it would join all sites of the server'
}

@test "every site with a conflict is reported" {
  local port
  port=$(httpd_port)
  configure_httpd 'VhostLimit On' -v 'a VhostLimitWeight 200' -v 'b VhostLimitWeight 200' \
    -x "<VirtualHost 127.0.0.2:$port>" -x 'ServerName a.test' -x 'VhostLimitWeight 300' -x '</VirtualHost>' \
    -x "<VirtualHost 127.0.0.2:$port>" -x 'ServerName b.test' -x 'VhostLimitWeight 400' -x '</VirtualHost>'
  refused 'VL0015: site a\.test: .*VL0015: site b\.test: '
}
