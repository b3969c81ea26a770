#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# vhostlimitctl: what each command prints, as text and as JSON, and how it ends.

load lib/live
load lib/control
export ONE_SERVER=yes

setup_file() {
  requires root
  start_httpd 'VhostLimit On' 'VhostLimitSlots 3' -v 'a VhostLimitConcurrency 1' -v 'b VhostLimit DryRun' -v 'b VhostLimitConcurrency 1' \
    -v 'b VhostLimitQueue 1' -v 'c VhostLimitConcurrency 1' -v 'c VhostLimitQueue 0'
}

teardown_file() { end_server; }

@test "list: a line for each vhost, a star at what is not as configured" {
  ctl set a.test weight=300 >/dev/null
  try ctl list
  is "$status $(wc -l <<<"$output")" '0 5'
  like "$output" 'VHOST +STATE +MODE'
  like "$output" 'a\.test .* 300\* '
  is "$(ctl list --json | jq -r '.schema, (.vhosts | length)' | xargs)" '1 4'
  ctl reset a.test >/dev/null
}

@test "set and reset print what the limits are now" {
  try ctl set a.test weight=300 cpu=none
  is "$output" "a.test: weight 300 (configured: 100), concurrency 1, queue 1000, cpu 0% (configured: 0)"
  is "$(ctl --json reset a.test weight | jq -c '.vhosts[0].overridden')" '{"cpu":0}'
  try ctl reset a.test
  is "$output" "a.test: weight 100, concurrency 1, queue 1000, cpu 0%"
}

@test "show prints all that is known of one" {
  try ctl show a.test
  like "$output" $'(^|\n)concurrency: 1\n'
  like "$output" $'\nrefused_queue: 0\n'
}

@test "explain says why: as many run as may" {
  hold_request one a
  begin_request two a /
  settles a waiting 1
  try ctl explain a.test
  like "$output" '1 request of it runs and 1 waits now\.'
  like "$output" 'As many run as may: 1 of VhostLimitConcurrency 1\.'
  is "$(ctl explain --json a.test | jq -c .causes)" '["concurrency"]'
}

@test "explain says why: refused, with the numbers of each reason" {
  hold_request one c
  is "$(get c /)" 503
  try ctl explain c.test
  like "$output" 'is refused, as VhostLimitQueue is 0'
  like "$output" 'Since the start 1 request of it had to be refused: 1 because as many ran as may\.'
}

@test "explain says why: all slots are taken" {
  hold_request one main; hold_request two main; hold_request three main
  begin_request four a /
  settles a waiting 1
  try ctl explain a.test
  like "$output" 'All 3 slots of the server are taken: 0 by it, 3 by others\. Its weight 100 beside those of 1 busy vhost makes its share 50 % .* The slots are held by requests that use little CPU time'
  is "$(ctl explain --json a.test | jq -c .causes)" '["slots"]'
}

@test "explain says that a site is slow by itself, and that one takes no part" {
  hold_request one main
  try ctl explain main.test
  like "$output" '1 request of it runs and none waits now\.'
  like "$output" 'If it is slow, that is not for want of its turn'
  try ctl explain status.test
  is "$status $output" "1 vhostlimitctl: 'status.test' has VhostLimit Off: nothing of it waits or is refused here"
}

@test "explain says that nothing stands in the way" {
  try ctl explain main.test
  like "$output" 'Nothing of it runs or waits now\.'
  like "$output" 'who comes now is let in'
}

@test "report: DryRun makes the decisions that On makes, and carries none out" {
  local queued
  hold_request one b; hold_request two b; hold_request three b
  is "$(status_of b running) $(status_of b waiting) $(status_of b refused)" '3 0 0'
  is "$(ctl report --json | jq -c '.vhosts[0] | [.requests, .would_queue, .would_refuse]')" '[3,1,1]'
  try ctl report
  like "$output" 'b\.test: of 3 requests 1 \(33\.3 %\) would have waited and 1 \(33\.3 %\) would have been refused'
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

@test "size: from what was measured, with Erlang's formulas" {
  repeat 5 get a /cgi/nap.sh?0.2 >/dev/null
  settles a running 0
  try ctl size 0
  like "$output" 'requests in [0-9]+ s'
  like "$output" 'Slots: [0-9]+ keep the processors busy \(now 3\)'
  like "$output" 'Erlang: '
  is "$(ctl size 0 --json | jq '.slots_wanted >= 8 * .processors and .workers_wanted >= .slots_wanted')" true
  is "$(ctl size 0 --json | jq '.service_ms > .cpu_ms')" true
}

@test "size: Erlang's formulas give what the tables have" {
  local jq="include \"ctl-size\"; [erlang_b(10; 5), erlang_c(10; 5), erlang_b(1; 1)] | map(. * 10000 | round)"
  is "$(jq -nc -L "$TOP/tools/lib" "$jq")" '[184,361,5000]'
}

@test "doctor: each finding with what to do, and its end says whether there is a problem" {
  try ctl doctor
  like "$output" $'(^|\n)ok +kernel: Linux '
  like "$output" $'\nok +mpm: event'
  like "$output" $'\nnote +dryrun: 1 of them only count'
  local problems
  problems=$(ctl doctor --json | jq '[.findings[] | select(.level == "problem")] | length') || :
  is "$status" $((problems > 0))
  is "$(ctl doctor --json | jq '[.findings[] | select(.level != "good" and .todo == "")] | length')" 0 "without a remedy"
}

@test "top prints once where there is no terminal, sorted" {
  get c / >/dev/null
  try ctl top name
  is "$(grep -oE '^[a-z]+\.test' <<<"$output" | xargs)" 'a.test b.test c.test main.test'
  is "$(ctl top name --json | jq '.vhosts | length')" 4
}

@test "top in a terminal: a screen a second, keys, and the terminal as it was" {
  requires script
  local seen=$BATS_TEST_TMPDIR/seen
  mkfifo "$BATS_TEST_TMPDIR/keys"
  (timeout 40 script -qec "stty rows 24 cols 120; $TOP/tools/vhostlimitctl -s $(control_socket) top" /dev/null \
    <"$BATS_TEST_TMPDIR/keys" >"$seen" 2>&1; echo over >"$seen.end") 3>&- &
  exec 7>"$BATS_TEST_TMPDIR/keys"
  wait_until 15 screens_shown 2
  printf 'n' >&7
  wait_until 15 first_is a.test
  printf 'q' >&7
  wait_until 15 test -e "$seen.end"
  exec 7>&-
  like "$(cat -v "$seen")" '\^\[\[\?1049l'
}

screens_shown() { (($(grep -c 'REQ/s' "$BATS_TEST_TMPDIR/seen") >= $1)); }  # <number>
first_is()      { grep -q "^$1" <<<"$(grep -A1 'REQ/s' "$BATS_TEST_TMPDIR/seen" | tail -n 1)"; }  # <vhost>
need_script() { need_program script; }

@test "errors end with a sentence and a status of their own" {
  try ctl set a.test weight=0
  is "$status $output" "1 vhostlimitctl: VhostLimitWeight: '0' is not a whole number from 1 to 10000"
  try ctl show none.test
  is "$status $output" "1 vhostlimitctl: 'none.test' is no site that takes part"
  try ctl -s /nowhere list
  is "$status $output" '69 vhostlimitctl: no answer from /nowhere: No such file or directory'
  local words
  for words in 'show' 'set a.test' 'list now' 'top sideways' 'size x' 'frob' ''; do
    # shellcheck disable=SC2086  # words they are
    try ctl $words
    is "$status" 2 "'$words'"
  done
  try ctl show $'a\tb'
  is "$status" 2
}

@test "its completion knows commands, vhosts and keys" {
  complete_words() { # <word>...: what is offered for the last
    # shellcheck source=/dev/null
    . "$TOP/tools/lib/completion.bash"
    COMP_WORDS=(vhostlimitctl -s "$(control_socket)" "$@")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    # shellcheck disable=SC2317  # the completion calls it
    vhostlimitctl() { "$TOP/tools/vhostlimitctl" "$@"; }
    _vhostlimitctl
    printf '%s\n' "${COMPREPLY[@]}" | xargs
  }
  is "$(complete_words re)" 'reset report'
  is "$(complete_words show a)" "a.test"
  is "$(complete_words set a.test w)" weight=
  is "$(complete_words reset a.test '')" 'weight concurrency queue cpu'
  is "$(complete_words top '')" 'cpu running waiting refused rate name'
}
