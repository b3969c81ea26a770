# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Waits for a condition; used by the tools and, through t/lib/common.bash, by the tests.

# Not `read -t`: bash 5.2 aborts in it when a signal has a trap that exits.
poll_pause() { sleep "$1"; }    # <seconds>

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
    poll_pause "$pause" || :
  done
}
