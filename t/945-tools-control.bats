#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# vhostlimitctl without a server: installed files, manual, completion, command line and
# invalid answers.

bats_require_minimum_version 1.5.0
load lib/common
load lib/httpd
load lib/guard
load lib/control

installed() { printf '%s%s\n' "$BATS_FILE_TMPDIR/root" "$1"; }  # <path>

setup() { requires ctl; }

setup_file() {
  [[ -x $CTL ]] || return 0
  install_both >"$BATS_FILE_TMPDIR/make" 2>&1 || { cat "$BATS_FILE_TMPDIR/make"; return 1; }
}

install_both() {
  local build=${VL_BUILD_DIR:-$TOP}
  make -C "$build" -s install-man DESTDIR="$(installed '')" && make -C "$build/ctl" -s install DESTDIR="$(installed '')"
}

part() { find "$(installed /)" -type f -path "$1"; }  # <pattern>

# Prints the commands in the help.
commands() { "$CTL" --help | sed -n 's/^  \([a-z]\{3,\}\) .*/\1/p' | sort -u; }

@test "vhostlimitctl runs without other programs, and two manuals and a completion are installed" {
  local program
  program=$(part '*/sbin/vhostlimitctl')
  try env PATH=/nowhere "$program" -s /nowhere top
  is "$status $output" '69 vhostlimitctl: no answer from /nowhere: No such file or directory'
  is "$(find "$(installed /)" -type f -printf '%f\n' | sort | xargs)" 'mod_vhostlimit.5 vhostlimitctl vhostlimitctl vhostlimitctl.8'
}

@test "the manual, the help and the completion have the same commands" {
  at_least "$(commands | wc -l)" 9 "commands in the help"
  is "$(sed -n 's/^\.It Cm \([a-z]*\).*/\1/p' "$(part '*/man8/vhostlimitctl.8')" | sort -u)" "$(commands)" "in the manual"
  is "$(sed -n 's/^ *:\*) echo \([a-z ]*[a-z]\) -.*/\1/p' "$(part '*/completions/vhostlimitctl')" | tr ' ' '\n' | sort)" \
    "$(commands)" "in the completion"
}

@test "mod_vhostlimit(5) has every directive" {
  is "$(sed -n 's/^\.It Cm //p' "$(part '*/man5/mod_vhostlimit.5')" | sort)" "$(directives_of_module)"
}

@test "groff accepts the manuals without a warning" {
  requires groff
  local page
  for page in $(part '*/man/*'); do
    try groff -mdoc -ww -z -K utf8 "$page"
    is "$status $output" '0 '
  done
}

need_groff() { need_program groff; }

@test "--help and --version print to stdout" {
  local option
  for option in -h --help; do
    run --separate-stderr "$CTL" "$option"
    # shellcheck disable=SC2154  # set by run --separate-stderr
    is "$status ${lines[1]%% \[*} $stderr" '0 Usage:   vhostlimitctl '
    like "$output" $'\nExit: .*'
  done
  run --separate-stderr "$CTL" --version
  is "$status $output $stderr" "0 vhostlimitctl (mod_vhostlimit) $(sed -n 's/^AC_INIT(\[mod_vhostlimit\], \[\(.*\)\])$/\1/p' "$TOP/configure.ac") "
}

@test "a usage error prints one sentence and a pointer to the help on stderr" {
  says() { # <sentence> <word>...
    local sentence=$1
    shift
    run --separate-stderr "$CTL" "$@"
    is "$status $output $stderr" "2  vhostlimitctl: $sentence"$'\n'"Try 'vhostlimitctl --help'." "$*"
  }
  says 'unknown option -Z' -Z
  says 'unknown option --no-such-option' top --no-such-option
  says 'option --json=1 takes no value' --json=1 top
  says 'option -s needs a value' top -s
  says 'missing command: top, show, set, reset, plans, import, unit, enter, clients, explain, mine, watch, history, collect, report, fleet or doctor' --json
  says "unknown command 'frob'" frob
  says 'show: too few arguments' show
  says 'set: too few arguments' set a.test
  says 'plans: too many arguments' plans now
  says "top: 'sideways' is not one of cpu, running, waiting, refused, rate and name" top sideways
  says 'a name or value must not contain a tab or a line break' show $'a\tb'
  says "unknown command '?[31m'" $'\e[31m'
}

@test "options may follow the command" {
  try "$CTL" top -s /nowhere --json
  is "$status" 69
}

@test "the control socket is found in the usual places, and -s is needed if there are several" {
  requires root
  [[ -e /run/vl-outer-net ]] || skip "needs a /run of its own: t/lib/isolate.sh"
  try "$CTL" top
  is "$status" 69
  like "$output" '^vhostlimitctl: no control socket in the usual places: .* -s SOCKET$'
  mkdir -p /run/apache2 /run/apache2-two
  touch /run/apache2-two/vhostlimit.sock         # not a socket
  answer_with /run/apache2/vhostlimit.sock '{"error":"from apache2"}\n'
  try "$CTL" top
  is "$status $output" '1 vhostlimitctl: from apache2'
  rm /run/apache2-two/vhostlimit.sock
  answer_with /run/apache2-two/vhostlimit.sock '{"error":"from the other"}\n'
  try "$CTL" top
  is "$status $output" '69 vhostlimitctl: several servers are running; choose one with -s: /run/apache2-two/vhostlimit.sock /run/apache2/vhostlimit.sock'
  try "$CTL" top -s /run/apache2-two/vhostlimit.sock
  is "$status $output" '1 vhostlimitctl: from the other'
}

@test "a path that is too long for a socket is refused" {
  try "$CTL" top -s "/$(printf 'a%.0s' {1..107})"
  is "$status" 69
  like "$output" 'at most 107 bytes'
}

@test "output that cannot be written is an error" {
  # shellcheck disable=SC2016  # for the shell there
  try bash -c '"$1" --help >/dev/full' - "$CTL"
  is "$status $output" '1 vhostlimitctl: the output cannot be written: No space left on device'
}

# ---- invalid answers --------------------------------------------------------------

# Starts a server that gives this answer (t/lib/answer.pl).
answer_with() { # <socket> <text> [how to end: close or hang] [number]
  detached perl "$TOP/t/lib/answer.pl" "$@" </dev/null >/dev/null 2>&1 &
  answering+=("$!")
  wait_until 20 test -S "$1"
}

teardown() { [[ -z ${answering-} ]] || kill "${answering[@]}" 2>/dev/null || :; }

@test "an answer that is not a document of the module is an error for each command" {
  local socket=$BATS_TEST_TMPDIR/s text n=0
  for text in '{"schema":1}\n' 'not JSON}\n' '[{}\n' '{"a":1,"a":2}\n' '{"slots":99999999999999999999}\n' '{"name":"\xff"}\n'; do
    answer_with "$socket.$((++n))" "$text"
    for command in 'show a' 'set a weight=1' 'explain a' report top doctor '--json top'; do
      # shellcheck disable=SC2086  # words they are
      try "$CTL" -s "$socket.$n" $command
      is "$status" 69 "$text: $command"
      like "$output" '^vhostlimitctl: (the answer from .* is not a document of mod_vhostlimit|the key "module" of the answer is missing or not valid: .* Restart Apache after an update)$'
    done
  done
}

@test "a cut-off answer is requested again" {
  local socket=$BATS_TEST_TMPDIR/s
  answer_with "$socket" '{"error":"the third time"}\n' close 3
  try "$CTL" -s "$socket" top
  is "$status $output" '1 vhostlimitctl: the third time'
}

@test "a server that always closes the connection, or always cuts its answer off, is an error" {
  local socket=$BATS_TEST_TMPDIR/s
  requires root
  answer_with "$socket" ''
  try "$CTL" -s "$socket" top
  is "$status $output" "69 vhostlimitctl: no answer from $socket: the server closed the connection"
  answer_with "$socket.half" '{"schema":1,'
  try "$CTL" -s "$socket.half" top
  is "$status $output" "69 vhostlimitctl: no answer from $socket.half: the server closed the connection within its answer"
}

@test "an incomplete answer times out after 15 seconds" {
  local socket=$BATS_TEST_TMPDIR/s
  answer_with "$socket" '{"schema":1,' hang
  try "$CTL" -s "$socket" top
  is "$status $output" "69 vhostlimitctl: no answer from $socket: none within 15 seconds"
}

@test "control characters in an error message are not printed" {
  local socket=$BATS_TEST_TMPDIR/s
  answer_with "$socket" '{"error":"a\u001b[31mb\u009bc\u00e4"}\n'
  try "$CTL" -s "$socket" top
  is "$status $output" '1 vhostlimitctl: a?[31mb?c?'
}
