#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Every order of what children do with slots, in spin's model of it.

load lib/common

need_spin() { need_program spin && need_program cc; }

setup() { requires spin; }

search() { # <-DNAME=NUMBER>...   all states; prints what spin has to say
  cd "$BATS_TEST_TMPDIR" || return
  spin "$@" -a "$TOP/t/model/slots.pml"
  cc -O1 -DSAFETY -DCOLLAPSE -DMEMLIM=1000 -o pan pan.c
  timeout 240 ./pan -n -m200000
}

nothing_is_lost() { # <-DNAME=NUMBER>...
  local said
  said=$(search "$@")
  like "$said" 'errors: 0' "$said"
  [[ $said != *'Search not completed'* && $said != *'max search depth'* ]] || fail "not all was searched: $said"
}

something_is_lost() { # <-DNAME=NUMBER>...
  like "$(search "$@" || :)" 'assertion violated.*errors: [1-9]' "spin on a broken rule"
}

@test "no wake-up is lost and no slot is granted twice" {
  nothing_is_lost -DREQUESTS=1 -DACCOUNTS=1
  nothing_is_lost -DREQUESTS=1 -DACCOUNTS=1 -DSLOTS=2
}

@test "neither when a child dies at any moment outside the lock" {
  requires long
  nothing_is_lost -DREQUESTS=1 -DACCOUNTS=1 -DDEATHS=1
}

@test "the search finds wake-ups that are not written, grants that nobody looks for, a death that nobody hears of" {
  something_is_lost -DACCOUNTS=1 -DFAULT=1
  ((${VL_LONG:-0})) || return 0
  something_is_lost -DACCOUNTS=2 -DFAULT=3
  something_is_lost -DREQUESTS=1 -DACCOUNTS=1 -DDEATHS=1 -DFAULT=4
}
