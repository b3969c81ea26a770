#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Plans: what a section may contain, which value a site gets, and what the test of the
# configuration says about errors. `apachectl configtest` is `httpd -t`.

load lib/live
load lib/control

setup() { mkdir -p "$HTTPD_ROOT"; }

GOLD=$'<VhostLimitPlan gold>\nVhostLimitWeight 300\nVhostLimitConcurrency 20\nVhostLimitQueue 50 3s\n</VhostLimitPlan>'

line_of() { grep -nF -- "$1" "$HTTPD_ROOT/httpd.conf" | cut -d : -f 1 | sed -n 1p; }  # <text>

# The configuration is refused, and the message names the file and the line of the text.
refused() { # <text of the line> <regular expression> <as configure_httpd>...
  check_config "${@:3}"
  isnt "$status" 0 "httpd -t"
  like "$output" "$2"
  like "$output" "httpd\.conf:$(line_of "$1")|on line $(line_of "$1") of " "the line of $1"
}

@test "a plan sets every limit of a site, wherever its section is in the file" {
  local every=$'VhostLimitWeight 2\nVhostLimitConcurrency 3\nVhostLimitQueue 4 5s\nVhostLimitCPU 50%\nVhostLimitMemory 64M
VhostLimitProcesses 7\nVhostLimitIO 1M\nVhostLimitStatusCode 429\nVhostLimitRetryAfter 9\nVhostLimitClients Off
VhostLimitKnown Address share=50\nVhostLimitClass api weight=5 "%{REQUEST_URI} == \'/api\'"'
  check_config -v 'a VhostLimitPlan all' -x "<VhostLimitPlan all>"$'\n'"$every"$'\n</VhostLimitPlan>'
  is "$status" 0
  check_config "<VhostLimitPlan all>"$'\n<IfModule vhostlimit_module>\n'"$every"$'\n</IfModule>\n</VhostLimitPlan>' -v 'a VhostLimitPlan all'
  is "$status" 0
}

@test "an unknown plan stops the start, and the message names its line" {
  refused 'VhostLimitPlan silver' 'VL0060: VhostLimitPlan silver in .*there is no <VhostLimitPlan silver>' "$GOLD" -v 'a VhostLimitPlan silver'
  refused 'VhostLimitPlan silver' 'VL0060: ' 'VhostLimitPlan silver'
}

@test "a plan that is defined twice stops the start, and the message names both lines" {
  refused '<VhostLimitPlan gold>' '<VhostLimitPlan gold>: the plan is already defined in .*httpd\.conf:[0-9]+' "$GOLD" "$GOLD"
}

@test "a directive that does not belong into a plan stops the start, and the message names its line" {
  local line
  for line in 'VhostLimit On' 'VhostLimitGroup one' 'VhostLimitExempt true' 'VhostLimitSlots 4' 'VhostLimitPlan x' 'ServerSignature Off'; do
    refused "$line" "${line%% *} does not belong into VhostLimitPlan:" "<VhostLimitPlan gold>"$'\n'"$line"$'\n</VhostLimitPlan>'
  done
  refused 'VhostLimitWeight 0' "VhostLimitWeight: '0' is not a whole number" $'<VhostLimitPlan gold>\nVhostLimitWeight 0\n</VhostLimitPlan>'
}

@test "a section in a virtual host, or with a wrong name, stops the start" {
  refused '<VhostLimitPlan gold>' '<VhostLimitPlan> (cannot occur|not allowed)' -v "a $GOLD"
  local name
  for name in '' 'a b' none 'x/y'; do
    refused "<VhostLimitPlan $name>" "<VhostLimitPlan>: '${name}' is not a name" "<VhostLimitPlan $name>"$'\n</VhostLimitPlan>'
  done
}

@test "two plans in one site stop the start, in one virtual host or in two" {
  local silver=$'<VhostLimitPlan silver>\n</VhostLimitPlan>' second
  refused ' VhostLimitPlan silver' "VhostLimitPlan: a site has one plan, and this one has 'gold' in .*httpd\.conf:[0-9]+" "$GOLD" "$silver" \
    -v $'a VhostLimitPlan gold\n VhostLimitPlan silver'
  second="<VirtualHost 127.0.0.2:$(httpd_port)>"$'\nServerName a.test\nVhostLimitPlan silver\n</VirtualHost>'
  check_config 'VhostLimit On' "$GOLD" "$silver" -v 'a VhostLimitPlan gold' -x "$second"
  isnt "$status" 0
  like "$output" 'VL0015: site a\.test: VhostLimitPlan is gold in .*httpd\.conf:[0-9]+ and silver in .*httpd\.conf:[0-9]+\.'
  check_config 'VhostLimit On' "$GOLD" "$silver" -v 'a VhostLimitPlan gold' -x "${second/VhostLimitPlan silver/}"
  is "$status" 0
}

limits_of() { control_of "$1" 'plan, (.vhosts[0] | .weight, .concurrency, .queue, .cpu)' | xargs; }  # <vhost>

@test "a limit of the site overrides its plan, and the plan overrides the default of the server" {
  requires root ctl
  start_httpd 'VhostLimit On' 'VhostLimitWeight 7' 'VhostLimitCPU 90%' "$GOLD" -v 'a VhostLimitPlan gold' \
    -v 'b VhostLimitPlan gold' -v 'b VhostLimitWeight 50'
  is "$(limits_of a)" 'gold 300 20 50 90'
  is "$(limits_of b)" 'gold 50 20 50 90'
  is "$(limits_of c)" '7 0 1000 90'
}

@test "a plan at server level applies to the sites that name none" {
  requires root ctl
  start_httpd 'VhostLimit On' 'VhostLimitPlan gold' "$GOLD" -v 'a VhostLimitPlan none' -v 'b VhostLimitWeight 5' \
    -x $'<VhostLimitPlan silver>\nVhostLimitWeight 60\n</VhostLimitPlan>' -v 'c VhostLimitPlan silver'
  is "$(limits_of a)" '100 0 1000 0'
  is "$(limits_of b)" 'gold 5 20 50 0'
  is "$(limits_of c)" 'silver 60 0 1000 0'
}

@test "a plan applies to all virtual hosts of its site, and to a group" {
  requires root ctl
  start_httpd 'VhostLimit On' "$GOLD" -v 'a VhostLimitPlan gold' -v 'a VhostLimitGroup g' -v 'b VhostLimitGroup g' -v 'b VhostLimitCPU 50%'
  is "$(ask 'status\t@g\n' | jq -r '.vhosts[0] | [.plan, .weight, .cpu] | join(" ")')" 'gold 300 50'
}

@test "the queue, the status code and Retry-After of a plan apply to its sites" {
  start_httpd 'VhostLimit On' -v 'a VhostLimitPlan small' \
    -x $'<VhostLimitPlan small>\nVhostLimitQueue 0\nVhostLimitConcurrency 1\nVhostLimitStatusCode 429\nVhostLimitRetryAfter 77\n</VhostLimitPlan>'
  hold_request one
  is "$(get a /) $(answer_head Retry-After)" '429 77'
  is "$(get b /)" 200
}
