#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Contexts in which a directive is not allowed.

load lib/live
load lib/guard

ALL=('VhostLimit On' 'VhostLimitWeight 200' 'VhostLimitConcurrency 5' 'VhostLimitQueue 50' 'VhostLimitStatusCode 429' 'VhostLimitRetryAfter 5'
  'VhostLimitSlots 4' 'VhostLimitCgroup off' 'VhostLimitCPU 50%' 'VhostLimitMemory 64M' 'VhostLimitProcesses 20' 'VhostLimitIO 10M'
  'VhostLimitOnError open' 'VhostLimitGroup g' 'VhostLimitPlan none' 'VhostLimitAccounts Vhost' 'VhostLimitExempt "false"' 'VhostLimitClients Off'
  'VhostLimitClass c weight=5 "true"' 'VhostLimitKnown Off' 'VhostLimitDatabaseUser u' 'VhostLimitOwner Off'
  'VhostLimitSandbox Off' 'VhostLimitSandboxPath ro /srv' 'VhostLimitSandboxConnect any'
  $'<VhostLimitSite a.test>\n</VhostLimitSite>')

setup() { mkdir -p "$HTTPD_ROOT"; }

refused_inside() { # <opening> <closing>   each directive; the message names it
  local line
  for line in "${ALL[@]}"; do
    check_config -v "a $1"$'\n'"$line"$'\n'"$2"
    isnt "$status" 0 "$line inside $1"
    like "$output" "${line%% *}>? (not allowed|cannot occur)" "$line inside $1"
  done
}

# httpd reads VhostLimitSaveFile as it reads Include, in any place.  The sections in the file are refused there (below).
@test "this file has each directive" {
  is "$({ printf '%s\n' "${ALL[@]}"; echo VhostLimitSaveFile; } | sed -nE 's/^<?(VhostLimit[A-Za-z]*).*/\1/p' | sort)" \
    "$(found 5 "directives of the module" directives_of_module)"
}

@test "a file of VhostLimitSaveFile in a vhost or a folder stops the start" {
  local file=$HTTPD_ROOT/saved.conf line
  printf '<VhostLimitSite a.test>\n  VhostLimitWeight 5\n</VhostLimitSite>\n' >"$file"
  for line in "VhostLimitSaveFile $file" "<Directory />"$'\n'"VhostLimitSaveFile $file"$'\n'"</Directory>"; do
    check_config -v "a $line"
    like "$status $output" '^1 .*saved\.conf:.*<VhostLimitSite>? (not allowed|cannot occur)' "$line"
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
  local line
  start_httpd 'VhostLimit On'
  for line in "${ALL[@]}"; do
    echo "$line" >"$HTTPD_ROOT/htdocs/a/sub/.htaccess"
    is "$(get a /sub/)" 500 "answer with $line in .htaccess"
    error_log_has "\.htaccess: ${line%% *} not allowed here" || fail "$line"
  done
}

@test "without directives of the module the server starts and counts nothing" {
  start_httpd
  is "$(get a /)" 200
  is "$(status_json | jq -c '.vhosts')" '[]'
}
