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
  is "$(sed -nE 's/^\| `(vhostlimit_[a-z_]+)` .*/\1/p' "$GUIDE" | sort)" "$(variables_of_role)"
  at_least "$(variables_of_role | wc -l)" 8 "variables"
}

@test "in a pristine root the role builds, begins with DryRun, reports, and switches on, each step once" {
  requires long root git
  [[ -e /run/vl-outer-net ]] || skip "needs t/lib/isolate.sh"
  try nsenter --net=/run/vl-outer-net "$TOP/tools/fresh.sh" --keep t/ansible/in-root.sh prepare
  is "$status" 0 "prepare"
  kept=$(sed -nE 's/^fresh.*: kept ([^;]*);.*/\1/p' <<<"$output")
  [[ -d $kept/root ]] || fail "no root"
  try "$TOP/tools/fresh.sh" --root "$kept" t/ansible/in-root.sh play
  is "$status" 0 "play"
  is "$(grep -c '^ok - ' <<<"$output")" 9 "steps"
}
