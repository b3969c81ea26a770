#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# All orders of the children's operations on slots, in a model for spin.

load lib/common

need_spin() { need_program spin && need_program cc; }

setup() { requires spin; }

search() { # <-DNAME=NUMBER>...   all states; prints spin's report
  cd "$BATS_TEST_TMPDIR" || return
  spin "$@" -a "$TOP/t/model/slots.pml"
  cc -O1 -DSAFETY -DCOLLAPSE -DMEMLIM=1000 -o pan pan.c
  timeout 240 ./pan -n -m200000
}

finds_no_error() { # <-DNAME=NUMBER>...
  local said
  said=$(search "$@")
  like "$said" 'errors: 0' "$said"
  [[ $said != *'Search not completed'* && $said != *'max search depth'* ]] || fail "the search is incomplete: $said"
}

finds_an_error() { # <-DNAME=NUMBER>...
  like "$(search "$@" || :)" 'assertion violated.*errors: [1-9]' "spin on a broken rule"
}

@test "no wake-up is lost and no slot is granted twice" {
  finds_no_error -DREQUESTS=1 -DACCOUNTS=1
  finds_no_error -DREQUESTS=1 -DACCOUNTS=1 -DSLOTS=2
}

@test "no wake-up is lost if a child dies at any moment outside the lock" {
  requires long
  finds_no_error -DREQUESTS=1 -DACCOUNTS=1 -DDEATHS=1
}

@test "the search finds missing wake-ups, grants that are not taken, and unnoticed deaths" {
  finds_an_error -DACCOUNTS=1 -DFAULT=1
  ((${VL_LONG:-0})) || return 0
  finds_an_error -DACCOUNTS=2 -DFAULT=3
  finds_an_error -DREQUESTS=1 -DACCOUNTS=1 -DDEATHS=1 -DFAULT=4
}
