#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0

load lib/common
load lib/httpd
load lib/guard

@test "every directive the module takes is in docs/directives.md, and none is invented" {
  local code docs
  code=$(found 5 "directives of the module" directives_of_module)
  docs=$(sed -nE "s/^## (VhostLimit[A-Za-z]*)\$/\1/p" "$TOP/docs/directives.md" | sort)
  is "$docs" "$code" "directives documented"
}

@test "each directive's entry has the fixed fields" {
  local name names field entry
  names=$(found 5 "directives of the module" directives_of_module)
  for name in $names; do
    entry=$(sed -nE "/^## \`?$name\`?\$/,/^## /p" "$TOP/docs/directives.md")
    for field in Syntax Default Context; do
      grep -qiE "^[-*|_ ]*$field" <<<"$entry" || fail "$name: no $field"
    done
  done
}

@test "conf/vhostlimit.conf shows every directive the module takes, and no other" {
  local code conf
  code=$(found 5 "directives of the module" directives_of_module)
  conf=$(sed -nE 's/^[ #]*<?(VhostLimit[A-Za-z]*) .*$/\1/p' "$TOP/conf/vhostlimit.conf" | sort -u)
  is "$conf" "$code" "directives in conf/vhostlimit.conf"
}

# The lines of the file that are configuration, uncommented: one begins with a
# directive or a section, or is indented in a section. The module is the one built.
uncommented() {
  sed -nE -e 's|^# (LoadModule vhostlimit_module) .*|\1 "'"$(vl_module)"'"|p' \
    -e 's,^# ((VhostLimit[A-Za-z]*|LogFormat|CustomLog) .*|</?[A-Z].*|    [A-Z].*)$,\1,p' "$TOP/conf/vhostlimit.conf"
}

@test "conf/vhostlimit.conf: the server takes it as it is, and with every directive uncommented" {
  local code
  code=$(found 5 "directives of the module" directives_of_module)
  uncommented >"$BATS_TEST_TMPDIR/all.conf"
  is "$(sed -nE 's/^<?(VhostLimit[A-Za-z]*).*/\1/p' "$BATS_TEST_TMPDIR/all.conf" | sort -u)" "$code" "directives uncommented"
  like "$(<"$BATS_TEST_TMPDIR/all.conf")" 'LoadModule.*<Location .*SetHandler.*</Location>.*LogFormat.*CustomLog'
  check_config 'VhostLimitCgroup off' -x "Include \"$TOP/conf/vhostlimit.conf\""
  is "$status" 0
  check_config -n -l authz_host -x "Include \"$BATS_TEST_TMPDIR/all.conf\""
  is "$status" 0
}

@test "log ids are unique" {
  local ids
  ids=$(found 20 "log ids of the module" log_ids)
  is "$(uniq -d <<<"$ids")" "" "ids used twice"
}

@test "every log id is in docs/operating.md" {
  local id ids
  ids=$(found 20 "log ids of the module" log_ids)
  for id in $ids; do
    grep -qE "(^|[^0-9])$id([^0-9]|$)" "$TOP/docs/operating.md" || fail "VLOGNO($id): not in docs/operating.md"
  done
}

@test "docs/operating.md lists no log id that the module does not have" {
  local id ids documented
  ids=$(found 20 "log ids of the module" log_ids)
  documented=$(found 20 "log ids of docs/operating.md" documented_ids)
  for id in $documented; do
    grep -qx "$id" <<<"$ids" || fail "VL$id: not in the module"
  done
}
documented_ids() { grep -oE '\bVL[0-9]{4}\b' "$TOP/docs/operating.md" | tr -d VL | sort -u; }

@test "the change log has a section for what is not released, or for this version" {
  local version
  version=$(sed -nE 's/^AC_INIT\(\[[^]]*\], *\[([0-9.]+)\].*/\1/p' "$TOP/configure.ac")
  like "$version" '^[0-9]+\.[0-9]+\.[0-9]+$' "version in configure.ac"
  try grep -E "^## \[?(Unreleased|${version//./\\.})\]?( |\$)" "$TOP/CHANGELOG.md"
  is "$status" 0
}
