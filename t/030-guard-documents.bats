#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Documents: directives, log ids and the change log agree with the sources.

load lib/common
load lib/httpd
load lib/guard

@test "docs/directives.md has exactly the directives of the module" {
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
    for field in Description Syntax Default Context Status Module; do
      grep -qiE "^[-*|_ ]*$field" <<<"$entry" || fail "$name: no $field"
    done
  done
}

@test "conf/vhostlimit.conf has exactly the directives of the module" {
  local code conf
  code=$(found 5 "directives of the module" directives_of_module)
  conf=$(sed -nE 's/^[ #]*(VhostLimit[A-Za-z]*) .*$/\1/p' "$TOP/conf/vhostlimit.conf" | sort -u)
  is "$conf" "$code" "directives in conf/vhostlimit.conf"
}

# Prints the configuration in the file, uncommented. A line of configuration begins with a
# directive or a section, or is indented in a section. The module is the one built.
uncommented() {
  sed -nE -e 's|^# (LoadModule vhostlimit_module) .*|\1 "'"$(vl_module)"'"|p' \
    -e 's,^# ((VhostLimit[A-Za-z]*|LogFormat|CustomLog) .*|</?[A-Z].*|    [A-Z].*)$,\1,p' "$TOP/conf/vhostlimit.conf"
}

@test "the server accepts conf/vhostlimit.conf as it is, and with all directives uncommented" {
  local code
  code=$(found 5 "directives of the module" directives_of_module)
  uncommented >"$BATS_TEST_TMPDIR/all.conf"
  is "$(grep -oE '^VhostLimit[A-Za-z]*' "$BATS_TEST_TMPDIR/all.conf" | sort -u)" "$code" "directives uncommented"
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

@test "the change log has a section for unreleased changes or for this version" {
  local version
  version=$(sed -nE 's/^AC_INIT\(\[[^]]*\], *\[([0-9.]+)\].*/\1/p' "$TOP/configure.ac")
  like "$version" '^[0-9]+\.[0-9]+\.[0-9]+$' "version in configure.ac"
  try grep -E "^## \[?(Unreleased|${version//./\\.})\]?( |\$)" "$TOP/CHANGELOG.md"
  is "$status" 0
}

@test "the picture of the overview has every label of its source" {
  local label labels svg
  svg=$(sed 's/&#45;/-/g; s/&gt;/>/g; s/&amp;/\&/g' "$TOP/docs/design/overview.svg")
  labels=$(found 15 "labels" picture_labels)
  while IFS= read -r label; do
    grep -qF -- ">$label<" <<<"$svg" || fail "$label: not in overview.svg (make pictures)"
  done <<<"$labels"
}
picture_labels() { grep -oE '\blabel = "[^"]+"' "$TOP/docs/design/overview.dot" | sed 's/label = "//; s/"$//; s/\\n/\n/g' | sort -u; }
