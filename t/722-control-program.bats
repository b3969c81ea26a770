#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# vhostlimitctl: the output of each command as text and as JSON, and the exit status.

load lib/live
load lib/control
export ONE_SERVER=yes

setup_file() {
  meets root || return 0
  start_httpd 'VhostLimit On' 'VhostLimitSlots 3' -v 'a VhostLimitConcurrency 1' -v 'b VhostLimit DryRun' -v 'b VhostLimitConcurrency 1' \
    -v 'b VhostLimitQueue 1' -v 'c VhostLimitConcurrency 1' -v 'c VhostLimitQueue 0'
}

setup() { requires root ctl; }

teardown_file() { end_server; }

@test "top: a line for each vhost, a star at changed values" {
  ctl set a.test weight=300 >/dev/null
  try ctl top
  is "$status $(sed '1,/^SITE /d' <<<"$output" | wc -l)" '0 4'
  like "$output" 'SITE +STATE +MODE'
  like "$output" 'a\.test .* 300\* '
  is "$(ctl top --json | jq -r '.schema, (.vhosts | length)' | xargs)" '1 4'
  ctl reset a.test >/dev/null
}

@test "set and reset print the limits in effect" {
  try ctl set a.test weight=300 cpu=none
  is "$output" "a.test: weight 300 (configured: 100), concurrency 1, queue 1000, cpu none (configured: none)"
  is "$(ctl --json reset a.test weight | jq -c '.vhosts[0].overridden')" '{"cpu":0}'
  try ctl reset a.test
  is "$output" "a.test: weight 100, concurrency 1, queue 1000, cpu none"
}

@test "show prints all values of one site" {
  try ctl show a.test
  like "$output" $'(^|\n)concurrency: 1\n'
  like "$output" $'\nrefused_queue: 0\n'
}

@test "explain: the concurrency limit is reached" {
  hold_request one a
  begin_request two a /
  settles a waiting 1
  try ctl explain a.test
  like "$output" '1 request is running and 1 is queued now\.'
  like "$output" 'The concurrency limit is reached: 1 of 1 requests are running \(VhostLimitConcurrency\)\. The next request is queued'
  like "$output" 'Next: vhostlimitctl set a\.test concurrency=2\.'
  is "$(ctl explain --json a.test | jq -c .causes)" '["concurrency"]'
}

@test "explain: requests are refused, with the number for each reason" {
  hold_request one c
  is "$(get c /)" 503
  try ctl explain c.test
  like "$output" 'The next request is refused, because VhostLimitQueue is 0\.'
  like "$output" 'Since the start, 1 request was refused: 1 because of the concurrency limit\.'
}

@test "explain: all slots are held" {
  hold_request one main; hold_request two main; hold_request three main
  begin_request four a /
  settles a waiting 1
  try ctl explain a.test
  like "$output" 'All 3 slots of the server are held\.'
  like "$output" 'main\.test holds 3\.0 of 3 slots \(3 running.*\)\.'
  like "$output" 'With weight 100 beside 1 other active site, the share of this site is 50 %'
  like "$output" 'The loudest other site is [a-z]+\.test: it uses [0-9.]+ % of one CPU now\..* Next: vhostlimitctl explain [a-z]+\.test\.'
  is "$(ctl explain --json a.test | jq -c .causes)" '["slots"]'
}

@test "explain: a site is not limited, and a site has VhostLimit Off" {
  hold_request one main
  try ctl explain main.test
  like "$output" '1 request is running and none is queued now\.'
  like "$output" 'If the site is slow, queueing is not the reason'
  like "$output" 'Next: vhostlimitctl show main\.test\.'
  try ctl explain status.test
  is "$status $output" "1 vhostlimitctl: 'status.test' has VhostLimit Off: nothing of it waits or is refused here"
}

@test "explain: nothing limits the site" {
  try ctl explain main.test
  like "$output" 'No request is running or queued now\.'
  like "$output" 'Nothing limits the site: a new request starts at once\.'
}

@test "report: DryRun makes the decisions of On without effect" {
  local queued
  hold_request one b; hold_request two b; hold_request three b
  is "$(status_of b running) $(status_of b waiting) $(status_of b refused)" '3 0 0'
  is "$(ctl report --json | jq -c '.vhosts[0] | [.requests, .would_queue, .would_refuse]')" '[3,1,1]'
  try ctl report
  like "$output" 'b\.test: of 3 requests, 1 \(33\.3 %\) would have been queued and 1 \(33\.3 %\) would have been refused'
  like "${lines[0]}" '^b\.test: ' "the first line"
  release_all
  is "$(answer_of one) $(answer_of two) $(answer_of three)" '200 200 200'
  queued=$(status_of a queued)
  ctl set a.test queue=1 >/dev/null
  hold_request four a
  begin_request five a /
  settles a waiting 1
  begin_request six a /
  settles a deferred 1
  release_all
  is "$(answer_of five) $(answer_of six)" '200 200'
  settles a queued $((queued + 2))
  ctl reset a.test >/dev/null
}

@test "doctor prints findings with remedies, and its status says whether there is a problem" {
  try ctl doctor
  like "$output" $'(^|\n)ok +kernel: Linux '
  like "$output" $'\nok +mpm: '"${VL_MPM:-event}"
  like "$output" $'\nnote +dryrun: 1 site with VhostLimit DryRun'
  local problems
  problems=$(ctl doctor --json | jq '[.findings[] | select(.level == "problem")] | length') || :
  is "$status" $((problems > 0))
  is "$(ctl doctor --json | jq '[.findings[] | select(.level != "good" and .todo == "")] | length')" 0 "without a remedy"
}

@test "top prints once without a terminal, sorted" {
  get c / >/dev/null
  try ctl top name
  is "$(grep -oE '^[a-z]+\.test' <<<"$output" | xargs)" 'a.test b.test c.test main.test'
  is "$(ctl top name --json | jq '.vhosts | length')" 4
}

@test "top prints once without a terminal: numbers of requests, in each order" {
  local order
  for order in cpu running waiting refused rate name; do
    try ctl top "$order"
    is "$status" 0 "$order"
    like "$output" $'^mod_vhostlimit/.* '"${VL_MPM:-event}"$' MPM, up 0 d 00:[0-9:]+, [0-9]+ child process(es)?, (32|40) workers, cgroup .*\n4 sites, '
    like "$output" $'\n\nSITE +STATE +MODE +RUN +SLOTS +DUTY% +WAIT +REQUESTS '
  done
  hold_request one b
  is "$(ctl --json top running | jq -r '.vhosts[0] | "\(.name) \(.rate)"')" "b.test null"
}

# ---- top in a terminal -------------------------------------------------------------

# The terminal's output goes to the file seen; keys are read from descriptor 7. The
# terminal, its state before and after, the pid and the exit status are in files.
begin_top() { # <word>...
  requires script
  cd "$BATS_TEST_TMPDIR" || return
  mkfifo keys
  # shellcheck disable=SC2016  # for the shell in the terminal
  printf '%s\n' 'stty rows 24 cols 120' 'tty >terminal' 'stty -g >before' "trap : INT" \
    'bash -c '\''echo $$ >pid; exec "$@"'\'' - "$@"' 'echo "$?" >status' 'stty -g >after' >terminal.sh
  detached timeout 60 script -qec "bash terminal.sh $CTL -s $(control_socket) top $*" /dev/null <keys >seen 2>&1 &
  exec 7>keys
  wait_until 15 screens_shown 1
}

press() { printf '%b' "$1" >&7; }             # <keys as printf takes them>
screens_shown() { (($(grep -c 'SITE' seen) >= $1)); }  # <number>
first_is()      { [[ $(last_screen | sed -n 5p) == "$1"* ]]; }  # <vhost>
last_screen()   { tr -d '\r' <seen | awk -v RS='\033\\[H' 'END { gsub(/\033\[[?0-9]*[A-Za-z]/, ""); print }' | sed '$ { /^$/d }'; }
has_ended()     { [[ -s after ]]; }
is_restored()   { is "$(<after)" "$(<before)" "state of the terminal"; }

@test "top in a terminal: a screen per second, keys, and the terminal is restored" {
  begin_top
  wait_until 15 screens_shown 3
  like "$(last_screen)" 'REQ/s'
  hold_request one c
  press n
  wait_until 15 first_is a.test
  press r
  wait_until 15 first_is c.test
  press 'x\e[B'                         # not keys of top
  press q
  wait_until 15 has_ended
  is "$(<status)" 0
  is_restored
  like "$(cat -v seen)" $'\\^\\[\\[\\?1049h.*\\^\\[\\[\\?1049l'
}

# Compares the number of lines and the longest line of the last screen.
screen_is() { [[ $(last_screen | awk '{ if (length > most) most = length } END { print NR " lines, " most }') == "$1" ]]; }

@test "top follows the size of the terminal" {
  begin_top name
  wait_until 15 first_is a.test
  stty -F "$(<terminal)" rows 6 cols 30
  wait_until 15 screen_is "5 lines, 30"
  stty -F "$(<terminal)" rows 24 cols 120
  wait_until 15 first_is a.test
  press q
  wait_until 15 has_ended
}

@test "Ctrl-C ends top and restores the terminal" {
  begin_top
  press '\003'
  wait_until 15 has_ended
  is "$(<status)" 130
  is_restored
}

is_stopped() { [[ $(sed 's/.*) //' "/proc/$(<pid)/stat") == T* ]]; }

@test "Ctrl-Z restores the terminal until top continues" {
  local shown
  begin_top
  kill -TSTP "$(<pid)"
  wait_until 15 is_stopped
  is "$(stty -F "$(<terminal)" -g)" "$(<before)" "state of the terminal"
  shown=$(grep -c SITE seen)
  kill -CONT "$(<pid)"
  wait_until 15 screens_shown $((shown + 2))
  press q
  wait_until 15 has_ended
  is_restored
}

@test "top ends with a message below its screen if the server does not answer" {
  begin_top
  mv "$(control_socket)" "$(control_socket).away"
  wait_until 15 has_ended
  mv "$(control_socket).away" "$(control_socket)"
  is "$(<status)" 69
  is_restored
  like "$(cat -v seen)" '\[\?1049lvhostlimitctl: no answer from .*: No such file or directory'
}

need_script() { need_program script; }

@test "errors end with a sentence and a status of their own" {
  try ctl set a.test weight=0
  is "$status $output" "1 vhostlimitctl: VhostLimitWeight: '0' is not a whole number from 1 to 10000"
  try ctl show none.test
  is "$status $output" "1 vhostlimitctl: 'none.test' is no site that takes part"
  try ctl -s /nowhere top
  is "$status $output" '69 vhostlimitctl: no answer from /nowhere: No such file or directory'
  local words
  for words in 'show' 'set a.test' 'plans now' 'top sideways' 'frob' ''; do
    # shellcheck disable=SC2086  # words they are
    try ctl $words
    is "$status" 2 "'$words'"
  done
  try ctl show $'a\tb'
  is "$status" 2
}

@test "the completion offers commands, vhosts and keys" {
  complete_words() { # <word>...: what is offered for the last
    # shellcheck source=/dev/null
    . "$TOP/ctl/completion.bash"
    COMP_WORDS=(vhostlimitctl -s "$(control_socket)" "$@")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    # shellcheck disable=SC2317  # the completion calls it
    vhostlimitctl() { "$CTL" "$@"; }
    _vhostlimitctl
    printf '%s\n' "${COMPREPLY[@]}" | xargs
  }
  is "$(complete_words re)" 'reset report'
  is "$(complete_words show a)" "a.test"
  is "$(complete_words set a.test w)" weight=
  is "$(complete_words reset a.test '')" 'weight concurrency queue cpu memory processes io'
  is "$(complete_words top '')" 'cpu running waiting refused rate name'
}
