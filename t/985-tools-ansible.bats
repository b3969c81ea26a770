#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The Ansible role, with Debian's ansible-core, on a pristine Debian root. Packages come
# through the outer network; Apache and Ansible run in the network of this file.

load lib/common

ROLE=$TOP/ansible/roles/mod_vhostlimit
GUIDE=$TOP/docs/guides/ansible.md

setup() {
  export VL_PRISTINE_ROOTS=/var/tmp/vhostlimit-pristine-ansible
}

teardown() {
  [[ -z ${kept-} ]] || rm -rf --one-file-system "${kept:?}"
  rmdir "$VL_PRISTINE_ROOTS" 2>/dev/null || :
}

variables_of_role() { sed -nE 's/^(vhostlimit_[a-z_]+):.*/\1/p' "$ROLE/defaults/main.yml" | sort; }

@test "the guide has each variable of the role with its default, and no other" {
  is "$(grep -oE '^\| .vhostlimit_[a-z_]+' "$GUIDE" | grep -oE 'vhost.*' | sort)" "$(variables_of_role)"
  at_least "$(variables_of_role | wc -l)" 8 "variables"
}

@test "in a pristine root the role builds, begins with DryRun, reports, and switches on, each step once" {
  requires long root git
  [[ -e /run/vl-outer-net ]] || skip "needs t/lib/isolate.sh"
  in_time nsenter --net=/run/vl-outer-net "$TOP/tools/fresh.sh" --keep t/ansible/in-root.sh prepare
  kept=$(sed -nE 's/^fresh.*: kept ([^;]*);.*/\1/p' "$BATS_TEST_TMPDIR/log")
  is "$status" 0 "prepare"
  [[ -d $kept/root ]] || fail "no root"
  in_time "$TOP/tools/fresh.sh" --root "$kept" t/ansible/in-root.sh play
  is "$status" 0 "play"
  is "$(grep -c '^ok - ' "$BATS_TEST_TMPDIR/log")" 10 "steps"
}

in_time() { # <command>...: a quarter of an hour
  status=0
  timeout -k 60 900 "$@" >"$BATS_TEST_TMPDIR/log" 2>&1 </dev/null 3>&- || status=$?
  tail -n 60 "$BATS_TEST_TMPDIR/log"
}
