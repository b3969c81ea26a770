#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Scripts: help, names of test files, pipes and sleeps. shellcheck is in t/040.

load lib/common
load lib/guard

@test "each program under tools has a summary, a usage and its exit statuses in its head" {
  local file word
  for file in "$TOP"/tools/*.sh; do
    [[ -e $file ]] || fail "no tools"
    for word in Summary Usage Exit; do
      grep -q "^# $word:" "$file" || fail "$file: no '# $word:' line"
    done
  done
}

@test "each bats file is executable and names bats, so that prove can run it" {
  local file
  for file in "$TOP"/t/*.bats; do
    [[ -x $file ]] || fail "$file: not executable"
    is "$(head -n 1 "$file")" '#!/usr/bin/env bats' "first line of $file"
  done
}

@test "each bats file is named NNN-area-topic" {
  local file
  for file in "$TOP"/t/*.bats; do
    like "${file##*/}" '^(0[0-9]{2}-guard|2[0-9]{2}-config|3[0-9]{2}-(admit|queue)|4[0-9]{2}-(cgroup|sandbox)|5[0-9]{2}-(queue|accept|cpu)|6[0-9]{2}-park|7[0-9]{2}-(status|control)|8[0-9]{2}-robust|9[0-9]{2}-tools)-[a-z0-9-]+\.bats$'
  done
}

# A producer that is cut off ends with SIGPIPE, and under pipefail the pipe fails although
# grep has found the word. Lines that end with | or \ are joined first.
cut_off_pipes() { # <file>...
  awk '
    FNR == 1 { text = "" }
    text == "" { start = FNR }
    /^[[:space:]]*#/ { next }
    { text = text " " $0 }
    /[|\\]$/ { sub(/\\$/, "", text); next }
    { print FILENAME ":" start ":" text; text = "" }' "$@" |
    grep -E '(^|[^|])\|&?[[:space:]]*([A-Za-z_]+=[^ ]* +)*((command|run|try|timeout [0-9]+) +)*([efz]?grep( +-[^ ]+)* +(-[A-Za-z]*[qm]|--(quiet|silent|max-count))|head([ );]|$)|(sed|perl)( +-[A-Za-z]+)* +['"'"'"]?([^|]*[;{0-9$/ ])?q['"'"'"; })]|sed( +-[A-Za-z]+)* +[0-9]+q|awk [^|]*[{; ]exit)' |
    grep -v 'awk [^|]*END { *exit' || true
}

@test "no pipe ends in a program that stops reading early" {
  local scripts
  mapfile -t scripts < <(scripts | grep -v '/t/010-')
  is "$(cut_off_pipes "${scripts[@]}")" ''
  # The guard finds each form.
  # shellcheck disable=SC2016  # the forms are text
  printf '%s\n' 'a | grep -q b' 'a | grep -m1 b' 'a | grep -E -q b' 'a |' '  grep -qx b' 'x=$(a | head -n 1)' 'a | head' \
    'a | sed 1q' "a | sed -n '/b/{p;q}'" "a | awk '/b/ { print; exit }'" 'a | LC_ALL=C grep --quiet b' \
    'a | grep b' 'a | sed -n 1p' "a | awk 'END { exit bad }'" 'grep -q b <<<"$(a)"' 'a || grep -q b c' >"$BATS_TEST_TMPDIR/forms"
  is "$(cut_off_pipes "$BATS_TEST_TMPDIR/forms" | wc -l)" 10 'forms found'
}

# See cpu_list.
@test "no loop reads a file of /proc line by line" {
  local scripts form='done *<"?/proc'
  mapfile -t scripts < <(scripts | grep -v '/t/010-')
  is "$(grep -nE "$form" "${scripts[@]}" || true)" ''
  # The guard finds the form.
  # shellcheck disable=SC2016  # the forms are text
  is "$(printf '%s\n' 'done </proc/stat' 'done <"/proc/$pid/status"' 'done <<<"$(</proc/stat)"' | grep -cE "$form")" 2 'forms found'
}

@test "tests of the module do not sleep" {
  try grep -nE '^ *(sleep|usleep) ' "$TOP"/t/[0-8]*.bats
  is "$status" 1 "status of grep"
  is "$output" "" "bare sleeps"
}

@test "bats traces the commands of tests, not those of helpers" {
  [[ $(trap -p DEBUG) == *'t|tools)/lib'*bats_debug_trap* ]] || fail "$(trap -p DEBUG)"
}
