#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Documents: directives, log ids and the change log agree with the sources.

load lib/common
load lib/httpd
load lib/guard

@test "docs/reference/directives.md has exactly the directives of the module" {
  local code docs
  code=$(found 5 "directives of the module" directives_of_module)
  docs=$(sed -nE "s/^## (VhostLimit[A-Za-z]*)\$/\1/p" "$TOP/docs/reference/directives.md" | sort)
  is "$docs" "$code" "directives documented"
}

# Prints the table of a directive: a line of name, tab and value for each field.
fields_of() { # <directive>
  awk -v name="## $1" '$0 == name { inside = 1; next }
    inside && /^\| / { gsub(/\\\|/, "\001"); split($0, cell, / *\| */); gsub(/\001/, "|", cell[3]); print cell[2] "\t" cell[3]; next }
    inside && $0 != "" && !/^\|-/ { exit }' "$TOP/docs/reference/directives.md"
}

@test "each directive's entry begins with a table as in httpd's manual" {
  local name names fields
  names=$(found 5 "directives of the module" directives_of_module)
  for name in $names; do
    fields=$(fields_of "$name" | grep -E $'\t.' | cut -f 1 | grep -vxE 'Range|Needs|Example' | xargs)
    is "$fields" 'Description Syntax Default Context' "$name"
    like "$(fields_of "$name" | sed -n 's/^Syntax\t//p')" "^\`<?$name " "syntax of $name"
  done
}

@test "the table of docs/compatibility.md is that of the results in docs/results/systems" {
  is "$(grep -E '^\| (cell|debian|httpd|el|rh)[^|]*\|([^|]*\|){9}$' "$TOP/docs/compatibility.md")" \
    "$("$TOP/tools/matrix.sh" --table "$TOP/docs/results/systems" | grep -v '^|---')"
}

# ---- defaults ----------------------------------------------------------------------------

# Prints "DIRECTIVE VALUE" for each default in the tables of vl_settings.h, with names of values.
defaults_of_tables() {
  local flags
  flags=$(pkg-config --cflags apr-1) || return
  # shellcheck disable=SC2086  # the flags are words
  printf '%s\n' '#include "config/vl_settings.h"' '#include "core/vl_fair.h"' \
    '#define X(member, directive, args, def, ...) ; @ directive def' 'VL_SETTINGS(X)' 'VL_GLOBALS(X)' |
    cc -E -P -I "$TOP/mod_vhostlimit" $flags - | tr ';' '\n' | sed -nE 's/^ *@ "([A-Za-z]+)" *(.*[^ ]) *$/\1 \2/p'
}

# Prints the value that a #define of the module has, or the word of a table of words for a constant.
value_of() { # <name>
  grep -rhoP "^#define $1 +\K.*?(?= *(/\*|\$))" "$TOP/mod_vhostlimit" --include='*.h' || :
}
word_of() { # <constant>
  sed -nE "s/^ *\\{ \"([A-Za-z]+)\", $1 \\}.*/\\1/p" "$TOP/mod_vhostlimit/config/vl_conf.c"
}

# Prints the default as docs/reference/directives.md writes it.
written_default() { # <directive> <value>
  local value=$2
  case $1 in
    VhostLimitSandbox | VhostLimitOwner | VhostLimit | VhostLimitOnError) value=$(word_of "$2") ;;
    VhostLimitRetryAfter | VhostLimitSlots) value=auto ;;
    VhostLimitQueue) value="$2 $(value_of VL_QUEUE_TIMEOUT | tr -cd 0-9)s" ;;
    VhostLimitCPU | VhostLimitMemory | VhostLimitProcesses | VhostLimitIO) [[ $2 != 0 ]] || value=none ;;
  esac
  echo "$value"
}

documented_default() { fields_of "$1" | sed -n 's/^Default\t//p'; }  # <directive>

@test "the documented default of each directive is that of the code" {
  local tables directive value
  tables=$(found 20 "defaults" defaults_of_tables)
  while read -r directive value; do
    like "$(documented_default "$directive")" "^\`$(written_default "$directive" "$value")\`" "$directive"
  done <<<"$tables"
  is "$(word_of "$(sed -nE 's/.*retry_after, "VhostLimitRetryAfter", TAKE1, (VL_[A-Z_]+),.*/\1/p' "$TOP/mod_vhostlimit/config/vl_settings.h")")" auto
  is "$(documented_default VhostLimitCgroup)" "\`$(value_of VL_CGROUP | tr -d '"')\`"
  is "$(documented_default VhostLimitClients)" "\`On $(value_of VL_CLIENT_BITS4) $(value_of VL_CLIENT_BITS6)\`"
  is "$(documented_default VhostLimitAccounts)" "\`Vhost\`; with \`Host\`, \`max=$(value_of VL_HOSTS)\`"
  is "$(value_of VL_KNOWN_TTL_US)" '(30 * 60 * (apr_int64_t)APR_USEC_PER_SEC)'
  like "$(documented_default VhostLimitKnown)" "^\`Off\`; .*\`share=$(value_of VL_KNOWN_SHARE)\`, \`ttl=30min\`"
  like "$(documented_default VhostLimitClass)" "weight $(value_of VL_CLASS_WEIGHT)\$"
}

@test "conf/vhostlimit.conf has exactly the directives of the module" {
  local code conf
  code=$(found 5 "directives of the module" directives_of_module)
  conf=$(sed -nE 's/^[ #]*<?(VhostLimit[A-Za-z]*) .*$/\1/p' "$TOP/conf/vhostlimit.conf" | sort -u)
  is "$conf" "$code" "directives in conf/vhostlimit.conf"
}

@test "conf/vhostlimit.conf shows the default of each directive that has one value" {
  local directive value
  while read -r directive value; do
    grep -qxF -- "# $directive $(written_default "$directive" "$value")" "$TOP/conf/vhostlimit.conf" || fail "$directive: not its default"
  done < <(found 20 "defaults" defaults_of_tables)
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

@test "every log id is in docs/reference/messages.md" {
  local id ids
  ids=$(found 20 "log ids of the module" log_ids)
  for id in $ids; do
    grep -qE "(^|[^0-9])$id([^0-9]|$)" "$TOP/docs/reference/messages.md" || fail "VLOGNO($id): not in docs/reference/messages.md"
  done
}

@test "docs/reference/messages.md lists no log id that the module does not have" {
  local id ids documented
  ids=$(found 20 "log ids of the module" log_ids)
  documented=$(found 20 "log ids of docs/reference/messages.md" documented_ids)
  for id in $documented; do
    grep -qx "$id" <<<"$ids" || fail "VL$id: not in the module"
  done
}
documented_ids() { grep -oE '\bVL[0-9]{4}\b' "$TOP/docs/reference/messages.md" | tr -d VL | sort -u; }

@test "the change log begins with a section for unreleased changes" {
  is "$(grep -E '^## ' "$TOP/CHANGELOG.md" | sed -n 1p)" '## Unreleased'
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

@test "docs/design/019-inventory.md has each directive, status key, message, test of bench.sh and tool" {
  local name names
  names=$(found 200 "names of interfaces" interfaces)
  set -f
  for name in $names; do
    name=${name//./\\.} name=${name//\*/\\*}
    grep -qE "(^|[^A-Za-z0-9_-])$name([^A-Za-z0-9_-]|$)" "$TOP/docs/design/019-inventory.md" || fail "$name: no user in the inventory"
  done
}
interfaces() {
  directives_of_module
  # Keys of one object, and of one number by reason, have one row.
  sed -nE 's/^\| (\x60[^|]*).*/\1/p' "$TOP/docs/reference/status.md" | grep -oE '[^, `]+' |
    sed -E 's/^vhosts\[\]\.//; s/^([a-z]+)\..*/\1.*/; s/^refused_.*/refused_*/'
  log_ids | sed 's/^/VL/'
  test_names
  find "$TOP/tools" -maxdepth 1 -name '*.sh' -printf '%f\n'
}
test_names() { "$TOP/tools/bench.sh" -l | awk '{ print $1 }'; }

@test "the tests of bench.sh that documents name exist" {
  local name names tests
  tests=$(found 20 "tests of bench.sh" test_names)
  names=$(found 30 "tests in documents" named_tests)
  for name in $names; do
    grep -qx -- "$name" <<<"$tests" || fail "bench.sh $name: no such test"
  done
}
# The last word of a command is a test, if it is no option or number.  In tables of results the command is the first cell.
named_tests() {
  (cd "$TOP" && {
    grep -rhoP '\bbench\.sh [^\x60\n]+(?=\x60)' README.md t/README.md docs --include='*.md'
    sed -nE 's/^\| \x60([^|]+)\x60 \|.*/\1/p' docs/results.md
  }) | sed -nE 's/^.* ([a-z][a-z0-9-]+)$/\1/p; s/^([a-z][a-z0-9-]+)$/\1/p'
}

# ---- words --------------------------------------------------------------------------------

# The subject of a sentence is a thing with a name. Spelling is American. Names in code are left out.
@test "documents use standard terms and American spelling" {
  local words
  words='whom|whoever|somebody|nobody|anybody|everybody|he|him|his|deputy|seats?|sitters?|newcomers?|hands? on|handed on|gives? away'
  words+='|given away|stands? still|stood still|nothing to say|lets? in|as many as may|is no more|who (waits?|runs?|sits?|asks?)'
  words+='|licence|behaviour|neighbours?|colour|serialise|recognise'
  at_least "$(find "$TOP/docs" -name '*.md' | wc -l)" 30 "documents"
  is "$(cd "$TOP" && find README.md SECURITY.md CONTRIBUTING.md conf/vhostlimit.conf docs -type f \( -name '*.md' -o -name '*.conf' \) \
    -exec awk -v OFS=: '{ gsub(/`[^`]*`/, ""); print FILENAME, FNR, $0 }' {} + | grep -wiE "$words")" '' "documents"
}

# ---- the version --------------------------------------------------------------------------

version() { sed -nE 's/^AC_INIT\(\[[^]]*\], *\[([0-9.]+)\].*/\1/p' "$TOP/configure.ac"; }

@test "packages, programs and the change log have the version of configure.ac" {
  local version
  version=$(version)
  like "$version" '^[0-9]+\.[0-9]+\.[0-9]+$' "version in configure.ac"
  is "$(sed -nE '1s/^mod-vhostlimit \(([0-9.]+)-[0-9]+\).*/\1/p' "$TOP/packaging/debian/changelog")" "$version" "Debian's changelog"
  is "$(sed -nE '/^%changelog/,$s/^\* .* - ([0-9.]+)-[0-9]+$/\1/p' "$TOP/packaging/mod_vhostlimit.spec.in" | sed -n 1p)" "$version" "the spec's changelog"
  is "$(sed -nE 's/^version=//p' "$TOP/conf/check_vhostlimit")" "$version" "check_vhostlimit"
  is "$(sed -nE 's/^version=//p' "$TOP/panels/vhostlimit-panel")" "$version" "vhostlimit-panel"
  is "$(sed -nE 's/^## ([0-9.]+) - [0-9]{4}-[0-9]{2}-[0-9]{2}$/\1/p' "$TOP/CHANGELOG.md" | sed -n 1p)" "$version" "the newest release in CHANGELOG.md"
  if [[ -x ${VL_BUILD_DIR:-$TOP}/ctl/vhostlimitctl ]]; then
    is "$("${VL_BUILD_DIR:-$TOP}/ctl/vhostlimitctl" --version)" "vhostlimitctl (mod_vhostlimit) $version"
  fi
}

# The lines of a document from the first pattern to the line before the second.
lines_of() { sed -n "/$2/,/$3/p" "$TOP/$1" | sed '$d'; }   # <document> <first> <after the last>

tables_of_raw_data() { jq -r -L "$TOP/tools/lib" --arg table "$1" -f "$TOP/tools/lib/overview-tables.jq" "$TOP/docs/results/overview.json"; }

@test "the tables of README.md and docs/results.md are those of the raw data" {
  is "$(lines_of README.md '^| 100 users' '^$')" "$(tables_of_raw_data readme)"
  is "$(lines_of docs/results.md '^| 100 users' '^$')" "$(tables_of_raw_data results)"
}
