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

@test "no directive is allowed in <Directory>, <Location> and <Files>" {
  refused_inside '<Directory "/">' '</Directory>'
  refused_inside '<Location "/x">' '</Location>'
  refused_inside '<Files "x">' '</Files>'
}

@test "VhostLimitCgroup, VhostLimitSlots and VhostLimitOnError in a vhost stop the start" {
  local line
  for line in 'VhostLimitCgroup off' 'VhostLimitSlots 4' 'VhostLimitOnError open'; do
    check_config -v "a $line"
    isnt "$status" 0
    like "$output" "${line% *} (cannot occur|not allowed)"
  done
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
