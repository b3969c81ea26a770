#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Installation of packages by the tools: no daemon of a package starts, now or at the next
# boot, and the needs of test files have roles in the table of packages.

load lib/common
load lib/machine

setup() { cd "$BATS_TEST_TMPDIR" || return; }

teardown() {
  stop_machine
  [[ -z ${apt_pid-} ]] || kill -KILL "$apt_pid" 2>/dev/null || :
}

TOOL="set -euo pipefail; . '$TOP/tools/lib/common.sh'; . '$TOP/tools/lib/packages.sh'"

with_packages() { bash -c "$TOOL; $1"; }  # <commands>: with tools/lib/packages.sh

@test "each word after requires, and after '# needs:', is a role or has one" {
  local roles
  roles=$(with_packages "packages_of_tests '$TOP'/t/*.bats")
  at_least "$(wc -l <<<"$roles")" 30 "roles of all test files"
  is "$(comm -23 <(printf '%s\n' "$roles") <(with_packages 'packages_table; packages_words' | cut -d ' ' -f 1 | sort))" '' "without a row in the table"
}

@test "the needs of a file: words after requires, '# needs:' lines, and those of loaded parts of t/lib" {
  mkdir lib
  # Neither a comment nor a title is a call.
  printf '%s\n' '# requires nothing' 'load lib/part' '@test "requires words" {' '  requires ab mod_lua cgroups' '}' 'setup() { requires sshd; }' >file.bats
  printf '%s\n' '# needs: spin' >lib/part.bash
  is "$(with_packages 'packages_of_tests ./file.bats' | xargs)" 'ab lua spin ssh sshd'
}

@test "what each test of bench.sh needs has a row in the table of packages" {
  # shellcheck disable=SC2016  # for the shell there
  try with_packages 'here=$top/tools; . "$here/lib/test.sh"; . "$here/lib/appserver.sh"; . "$here/lib/load.sh"; . "$here/lib/remote.sh"
    for name in $(test_list | cut -f 1); do
      (test_read "$name"; test_packages; printf "%s\n" ${test[modules]-}; load_packages $(test_generators ""))
    done | sort -u | grep . >roles
    comm -23 roles <(packages_table | cut -d " " -f 1 | sort)'
  is "$status $output" '0 '
  at_least "$(wc -l <roles)" 15 "roles"
}

@test "for a module of a package of its own the package is installed, for another one Apache" {
  local names name
  names=$(with_packages packages_table | grep -v ' apache2-bin ' | grep -oE 'modules/mod_[a-z0-9]+' | cut -d / -f 2)
  at_least "$(wc -l <<<"$names")" 4 "modules"
  for name in $names mod_include; do
    echo "  requires $name" >"$name.bats"
    with_packages "packages_of_tests ./$name.bats"
  done >roles
  is "$(grep -nx httpd roles | xargs)" "$(wc -l <roles):httpd"
}

@test "a package that cannot be installed is named, and the others are installed" {
  requires root
  # shellcheck disable=SC2016  # for the shell there
  try with_packages '
    packages_family() { echo some; }
    packages_some() { case "$*" in *spin*) return 1 ;; *) printf "%s\n" "$@" >>had ;; esac; }
    packages_missing() { local role; for role; do grep -qsx "$role" had || echo "$role"; done; }
    packages_try siege spin wrk 2>/dev/null'
  is "$output" spin
}

# ---- policy-rc.d, with an apt-get that prints its decisions ---------------------

fake_apt() { # <commands of the installation>
  mkdir bin
  # shellcheck disable=SC2016  # for the shell there
  printf '#!/bin/sh\n[ "$1" = install ] || exit 0\n%s\n' "$1" >bin/apt-get
  chmod +x bin/apt-get
}

installation="packages_policy=\$PWD/policy; PATH=\$PWD/bin:\$PATH; packages_enabled() { :; }; packages_apt something"

@test "the policy forbids daemons to start during the installation only, and is removed" {
  fake_apt './policy; echo "$?" >inside; env -u VL_INSTALLS ./policy; echo "$?" >outside'
  try with_packages "$installation"
  is "$status $(<inside) $(<outside)" '0 101 0'
  [ ! -e policy ]
}

@test "the machine's own policy is covered during the installation and then restored" {
  requires root
  fake_apt './policy; echo "$?" >inside'
  printf '#!/bin/sh\nexit 0\n' >policy
  chmod 750 policy
  try with_packages "$installation"
  is "$status $(<inside) $(stat -c %a policy) $(tail -n 1 policy)" '0 101 750 exit 0'
}

begin_installation() {
  fake_apt "trap 'echo stopped >inside; exit 1' INT; echo \$\$ \$PPID >pid.new; mv pid.new pid
while [ ! -e go ]; do sleep 0.05; done; ./policy; echo \$? >inside"
  (set -m; bash -c "$TOOL; $installation" >log 2>&1 3>&- 4>&- & echo "$!" >tool)
  wait_until 10 test -e pid
  read -r apt_pid worker_pid <pid
  tool_pid=$(<tool)
}

@test "after a SIGKILL of the tool the installation completes, and the policy is removed" {
  begin_installation
  kill -KILL -- "-$tool_pid"
  wait_until 20 gone "$tool_pid"
  : >go
  wait_until 20 test -e inside
  is "$(<inside)" 101 "for the installation"
  wait_until 20 test ! -e policy
}

@test "after a SIGKILL of all processes the policy allows everything and removes itself" {
  begin_installation
  kill -KILL "$tool_pid" "$worker_pid" "$apt_pid"
  wait_until 20 gone "$worker_pid"
  [ -e policy ]
  try ./policy
  is "$status" 0
  wait_until 10 policy_removed          # the killed process may be a zombie for a while
}
policy_removed() { [[ ! -e policy ]] || { ./policy; [[ ! -e policy ]]; }; }

@test "SIGTERM stops apt-get, and the policy is removed" {
  begin_installation
  kill -TERM "$tool_pid"
  wait_until 20 gone "$tool_pid"
  is "$(<inside)" stopped
  [ ! -e policy ]
}

# ---- services ------------------------------------------------------------------

# A package with a service, as debhelper makes it. Its daemon creates /run/NAME.
make_package() { # <name>
  mkdir -p "$1"/{DEBIAN,lib/systemd/system,etc/init.d}
  printf '%s\n' "Package: $1" 'Version: 1' 'Architecture: all' 'Maintainer: test <test@localhost>' 'Description: a daemon' >"$1/DEBIAN/control"
  printf '%s\n' '[Service]' "ExecStart=/etc/init.d/$1 start" '[Install]' 'WantedBy=multi-user.target' "Alias=$1-too.service" >"$1/lib/systemd/system/$1.service"
  printf '%s\n' '#!/bin/sh' '### BEGIN INIT INFO' "# Provides: $1" '# Required-Start:' '# Required-Stop:' '# Default-Start: 2 3 4 5' '# Default-Stop: 0 1 6' \
    '### END INIT INFO' "[ \"\$1\" != start ] || touch /run/$1" >"$1/etc/init.d/$1"
  printf '%s\n' '#!/bin/sh' 'set -e' "deb-systemd-helper unmask $1.service >/dev/null || true" \
    "if deb-systemd-helper --quiet was-enabled $1.service; then deb-systemd-helper enable $1.service >/dev/null; else deb-systemd-helper update-state $1.service >/dev/null; fi" \
    "update-rc.d $1 defaults >/dev/null" "invoke-rc.d --skip-systemd-native $1 start" >"$1/DEBIAN/postinst"
  chmod 755 "$1/DEBIAN/postinst" "$1/etc/init.d/$1"
  dpkg-deb --root-owner-group --build "$1" >/dev/null
  put_on_machine "/root/$1.deb" <"$1.deb"
}

# A machine whose maintainer scripts start daemons, because it has a runlevel.
start_debian() {
  requires machine dpkg_deb
  start_machine
  on_machine rm -f /sbin/runlevel
  put_on_machine /sbin/runlevel <<<$'#!/bin/sh\necho N 2'
  on_machine chmod 755 /sbin/runlevel
}

# Prints the links that start the service at the next boot.
starts_at_boot() { # <name>
  on_machine find /etc/systemd/system /etc/rc2.d -type l \( -name "$1*.service" -o -name "S[0-9][0-9]$1" \) -printf '%f\n' | sed 's/^S[0-9]*/S/' | sort -u | xargs
}

install_with_tools() { # <file>
  on_machine bash -c "$TOOL; packages_apt $1"
}

@test "a newly installed service is neither enabled nor started, also when it is installed again, and an enabled one stays enabled" {
  start_debian
  make_package vl-before
  try on_machine apt-get install -qy /root/vl-before.deb
  is "$status" 0 "apt-get by hand"
  is "$(starts_at_boot vl-before)" 'Svl-before vl-before-too.service vl-before.service'
  on_machine test -e /run/vl-before || fail "the package does not start its daemon"
  on_machine rm /run/vl-before
  make_package vl-new
  try install_with_tools '--reinstall /root/vl-before.deb /root/vl-new.deb'
  is "$status" 0
  is "$(starts_at_boot vl-new)" ''
  is "$(starts_at_boot vl-before)" 'Svl-before vl-before-too.service vl-before.service'
  is "$(on_machine find /run -maxdepth 1 -name 'vl-*')" '' "daemons that were started"
  on_machine test ! -e /usr/sbin/policy-rc.d
  try on_machine apt-get install -qy --reinstall /root/vl-new.deb
  is "$status" 0 "apt-get by hand, again"
  is "$(starts_at_boot vl-new)" ''
}

need_dpkg_deb() { need_program dpkg-deb && need_program deb-systemd-helper; }
