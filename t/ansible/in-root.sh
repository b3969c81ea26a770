#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: tests the Ansible role on this machine, which is a pristine root (t/985)
# Usage:   in-root.sh prepare   installs Ansible and downloads packages, with a network
#          in-root.sh play      runs the role, without one
# Exit:    0 all is as it should be

set -euo pipefail
cd "$(dirname -- "${BASH_SOURCE[0]}")/../../ansible"
out=/tmp/play
# Groups of cgroups are shared with the machine around the root.
plain='ServerName localhost
VhostLimitCgroup off'

fail() { printf 'FAIL: %s\n' "$*"; [[ ! -e $out ]] || cat "$out"; exit 1; }
ok()   { printf 'ok - %s\n' "$*"; }

prepare() {
  local packages
  packages=$(sed -n '/^vhostlimit_build_packages/,$s/^ *- //p' roles/mod_vhostlimit/vars/Debian.yml)
  apt-get update -q
  apt-get install -qy --no-install-recommends ansible-core git python3-apt curl jq
  # shellcheck disable=SC2086  # words
  apt-get install -qy --download-only apache2 $packages
}

# Runs the role; the variables are JSON. Sets $changed and $failed from the recap.
play() { # <variables> [option]...
  local recap
  ansible-playbook -i localhost, -c local site.yml -e "$1" "${@:2}" >"$out" 2>&1 || :
  recap=$(grep '^localhost .*ok=' "$out") || fail "no recap"
  changed=$(sed -E 's/.*changed=([0-9]+).*/\1/' <<<"$recap")
  failed=$(sed -E 's/.*failed=([0-9]+).*/\1/' <<<"$recap")
}

variables() { # <mode as JSON> <more directives> [<more as JSON>]
  jq -nc --argjson mode "$1" --arg directives "$plain"$'\n'"$2" --argjson more "${3:-null}" \
    '{vhostlimit_install: "source", vhostlimit_mode: $mode, vhostlimit_directives: $directives} + $more'
}

# The role succeeds, and a second run changes nothing.
settles() { # <variables> <what>
  play "$1"
  ((failed == 0)) || fail "$2"
  ((changed > 0)) || fail "$2: nothing was changed"
  play "$1"
  ((failed == 0 && changed == 0)) || fail "$2: the second run changed $changed, failed $failed"
  ok "$2"
}

fails_with() { # <text> <what>
  ((failed == 1)) || fail "$2 does not fail"
  grep -q "$1" "$out" || fail "$2: the message"
}

status() { curl -s -m 10 'http://127.0.0.1/vhostlimit-status?json' | jq -r "$1"; } # <jq filter>
parent() { cat /run/apache2/apache2.pid; }

play_all() {
  local gold before
  git config --global --add safe.directory '*'
  ansible-playbook -i localhost, site.yml --syntax-check
  ok "syntax"

  play "$(variables '"On"' '')"
  fails_with 'nothing has been counted' "On without a dry run"
  [[ ! -e /etc/apache2 ]] || fail "Apache was installed"
  ok "On is refused without a dry run"
  play "$(variables '"Dry"' '')"
  fails_with 'vhostlimit_mode is On, Off or DryRun' "an unknown mode"
  ok "an unknown mode is refused"

  mkdir -p /tmp/reports
  settles "$(variables '"DryRun"' '' '{"vhostlimit_report_folder": "/tmp/reports"}')" "the source is built and installed, with a dry run"
  [[ $(status '.vhosts[0].mode') == dryrun ]] || fail "the mode is $(status '.vhosts[0].mode')"
  [[ -s /tmp/reports/localhost-report.txt && -s /tmp/reports/localhost-doctor.txt ]] || fail "no reports"
  grep -qF "$(sed -n 1p /tmp/reports/localhost-report.txt)" "$out" || fail "the report is not shown"
  play "$(variables '"On"' '')" --check
  [[ $failed == 0 && $(status '.vhosts[0].mode') == dryrun ]] || fail "--check"
  ok "the reports are shown and kept; --check changes nothing"

  gold=$'<VhostLimitPlan gold>\n    VhostLimitWeight 300\n</VhostLimitPlan>'
  settles "$(variables '"DryRun"' "$gold")" "directives"
  [[ $(vhostlimitctl plans) == *$'\n'gold\ * ]] || fail "there is no plan gold"

  before=$(parent)
  cp /etc/apache2/mods-available/vhostlimit.conf /tmp/before
  play "$(variables '"On"' 'VhostLimitWeight many')"
  fails_with 'The configuration is as it was' "a wrong directive"
  cmp /tmp/before /etc/apache2/mods-available/vhostlimit.conf || fail "the configuration is not as it was"
  apache2ctl configtest 2>/dev/null || fail "configtest"
  [[ $(status '.vhosts[0].mode') == dryrun ]] || fail "the mode after a wrong directive"
  ok "a wrong directive changes nothing"

  settles "$(variables true "$gold")" "On"
  [[ $(status '.vhosts[0].mode') == on ]] || fail "the mode is $(status '.vhosts[0].mode')"
  [[ $(parent) == "$before" ]] || fail "Apache was restarted, not reloaded"

  settles "$(variables '"On"' "$gold" "$(printf '{"vhostlimit_install": "package", "vhostlimit_package": "%s"}' \
    /usr/local/src/mod_vhostlimit/deb/libapache2-mod-vhostlimit_*.deb)")" "the package's file"
  settles "$(variables '"Off"' '' '{"vhostlimit_install": "none"}')" "Off"
  [[ $(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1/) == 200 ]] || fail "Apache does not answer"
}

case ${1-} in
  prepare) prepare ;;
  play) play_all ;;
  *) echo 'in-root.sh: prepare or play' >&2; exit 2 ;;
esac
