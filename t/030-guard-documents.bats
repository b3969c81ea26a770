#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0

load lib/common
load lib/httpd
load lib/guard

@test "every directive the module takes is in docs/directives.md, and none is invented" {
  local code docs
  code=$(directives_of_module)
  docs=$(sed -nE "s/^## (VhostLimit[A-Za-z]*)\$/\1/p" "$TOP/docs/directives.md" | sort)
  at_least "$(wc -w <<<"$code")" 5 "directives found in the module"
  is "$docs" "$code" "directives documented"
}

@test "each directive's entry has the fixed fields" {
  local name field entry
  for name in $(directives_of_module); do
    entry=$(sed -nE "/^## \`?$name\`?\$/,/^## /p" "$TOP/docs/directives.md")
    for field in Syntax Default Context; do
      grep -qiE "^[-*|_ ]*$field" <<<"$entry" || fail "$name: no $field"
    done
  done
}

@test "conf/vhostlimit.conf shows every directive the module takes, and no other" {
  local code conf
  code=$(directives_of_module)
  conf=$(sed -nE 's/^[ #]*(VhostLimit[A-Za-z]*) .*$/\1/p' "$TOP/conf/vhostlimit.conf" | sort -u)
  at_least "$(wc -w <<<"$code")" 5 "directives found in the module"
  is "$conf" "$code" "directives in conf/vhostlimit.conf"
}

@test "conf/vhostlimit.conf is a configuration that the server takes" {
  make_room
  check_config 'VhostLimitCgroup off' -x "Include \"$TOP/conf/vhostlimit.conf\""
  is "$status" 0
}

@test "log ids are unique" {
  at_least "$(log_ids | wc -l)" 3 "log ids found"
  is "$(log_ids | uniq -d)" "" "ids used twice"
}

@test "every log id is in docs/operating.md" {
  local id
  at_least "$(log_ids | wc -l)" 3 "log ids found"
  for id in $(log_ids); do
    grep -qE "(^|[^0-9])$id([^0-9]|$)" "$TOP/docs/operating.md" || fail "VLOGNO($id): not in docs/operating.md"
  done
}

@test "docs/operating.md lists no log id that the module does not have" {
  local id
  for id in $(grep -oE '\bVL[0-9]{4}\b' "$TOP/docs/operating.md" | tr -d VL | sort -u); do
    grep -qx "$id" <<<"$(log_ids)" || fail "VL$id: not in the module"
  done
}

@test "the change log has a section for what is not released, or for this version" {
  try grep -E '^## \[?(Unreleased|[0-9]+\.[0-9]+\.[0-9]+)\]?' "$TOP/CHANGELOG.md"
  is "$status" 0
}
