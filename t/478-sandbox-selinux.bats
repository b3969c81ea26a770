#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# conf/vhostlimit.cil, compiled with the reference policy of this machine's Debian. Nothing is loaded.

load lib/common

setup() { requires root secilc; }

need_secilc() { need_program secilc && get_policy; }

pp_program() { # prints the translator of policy packages
  local file
  for file in /usr/libexec/selinux/hll/pp /usr/lib/selinux/hll/pp; do
    [[ ! -x $file ]] || { echo "$file"; return; }
  done
  return 1
}

# The package is not installed: it would set up SELinux on this machine.
get_policy() {
  local dir=$BATS_FILE_TMPDIR/policy outer=()
  pp_program >/dev/null || { echo "no translator of policy packages"; return 1; }
  [[ ! -e $dir/usr ]] || return 0
  [[ ! -e /run/vl-outer-net ]] || outer=(nsenter --net=/run/vl-outer-net)
  mkdir -p "$dir"
  (cd "$dir" && timeout 60 "${outer[@]}" apt-get -q -o APT::Sandbox::User=root download selinux-policy-default >"$dir/log" 2>&1 &&
    dpkg -x selinux-policy-default*.deb .) || { echo "no selinux-policy-default to download"; return 1; }
}

compile() { # <module>: with Debian's base and Apache's module
  local name dir=$BATS_FILE_TMPDIR/policy
  for name in base apache; do
    # Users and file contexts of the policy need other modules.
    bzcat "$dir/usr/share/selinux/default/$name.pp.bz2" | "$(pp_program)" | grep -vE '^\((selinuxuser|filecon) ' >"$BATS_TEST_TMPDIR/$name.cil"
  done
  try secilc -o "$BATS_TEST_TMPDIR/policy" -f "$BATS_TEST_TMPDIR/contexts" "$BATS_TEST_TMPDIR"/{base,apache}.cil "$1"
}

@test "each type, class and permission of the policy module is in Debian's reference policy" {
  compile "$TOP/conf/vhostlimit.cil"
  is "$status" 0
  sed 's/httpd_tmpfs_t/httpd_nowhere_t/' "$TOP/conf/vhostlimit.cil" >"$BATS_TEST_TMPDIR/wrong"
  compile "$BATS_TEST_TMPDIR/wrong"
  like "$output" 'Failed to resolve'
}
