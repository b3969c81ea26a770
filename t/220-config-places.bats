#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Contexts in which a directive is not allowed.

load lib/live

ALL='VhostLimit:On VhostLimitWeight:200 VhostLimitConcurrency:5 VhostLimitQueue:50
  VhostLimitStatusCode:429 VhostLimitRetryAfter:5 VhostLimitSlots:4 VhostLimitCgroup:off
  VhostLimitCPU:50% VhostLimitMemory:64M VhostLimitProcesses:20 VhostLimitIO:10M VhostLimitOnError:open'

setup() { mkdir -p "$HTTPD_ROOT"; }

refused_inside() { # <opening> <closing>   each directive; the message names it
  local pair
  for pair in $ALL; do
    check_config -v "a $1"$'\n'"${pair/:/ }"$'\n'"$2"
    isnt "$status" 0 "$pair inside $1"
    like "$output" "${pair%:*} (not allowed|cannot occur)" "$pair inside $1"
  done
}

@test "no directive is allowed in <Directory>" {
  refused_inside '<Directory "/">' '</Directory>'
}

@test "no directive is allowed in <Location>" {
  refused_inside '<Location "/x">' '</Location>'
}

@test "no directive is allowed in <Files>" {
  refused_inside '<Files "x">' '</Files>'
}

@test "VhostLimitCgroup in a vhost stops the start" {
  check_config -v 'a VhostLimitCgroup off'
  isnt "$status" 0
  like "$output" 'VhostLimitCgroup (cannot occur|not allowed)'
}

@test "VhostLimitSlots in a vhost stops the start" {
  check_config -v 'a VhostLimitSlots 4'
  isnt "$status" 0
  like "$output" 'VhostLimitSlots (cannot occur|not allowed)'
}

@test "VhostLimitOnError in a vhost stops the start" {
  check_config -v 'a VhostLimitOnError open'
  isnt "$status" 0
  like "$output" 'VhostLimitOnError (cannot occur|not allowed)'
}

@test "no directive is allowed in .htaccess" {
  local pair
  start_httpd 'VhostLimit On'
  for pair in $ALL; do
    echo "${pair/:/ }" >"$HTTPD_ROOT/htdocs/a/sub/.htaccess"
    is "$(get a /sub/)" 500 "answer with $pair in .htaccess"
    error_log_has "\.htaccess: ${pair%:*} not allowed here"
  done
}

@test "without directives of the module the server starts and counts nothing" {
  start_httpd
  is "$(get a /)" 200
  is "$(status_json | jq -c '.vhosts')" '[]'
}
