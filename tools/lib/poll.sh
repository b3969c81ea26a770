# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Waits for a condition; used by the tools and, through t/lib/common.bash, by the tests.

# Reading from a pipe that stays empty is a pause without a process.
exec {poll_pipe}<> <(:)

# Runs the command until it succeeds.  Returns 1 if that has not happened within the
# given time.  The pause between two calls is a tenth of the time waited so far, 20
# to 200 ms, so that a long wait costs little CPU time.
poll_until() { # <seconds> <command>...
  local began=${EPOCHREALTIME/[.,]/} limit=$(($1 * 1000000)) waited pause
  shift
  until "$@"; do
    waited=$((${EPOCHREALTIME/[.,]/} - began))
    ((waited < limit)) || return 1
    pause=$((waited / 10))
    printf -v pause '0.%06d' $((pause < 20000 ? 20000 : pause > 200000 ? 200000 : pause))
    read -r -t "$pause" -u "$poll_pipe" || :
  done
}
