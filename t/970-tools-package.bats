#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The package for Debian and Ubuntu, as `make deb` builds it, and its use by an operator on
# a separate machine.

load lib/common
load lib/cgroup
load lib/machine

PACKAGE=libapache2-mod-vhostlimit
STATUS=http://127.0.0.1/vhostlimit-status

need_dpkg()    { need_program dpkg-buildpackage && need_program dh_apache2 && need_hiredis; }
need_hiredis() { pkg-config --exists hiredis openssl || { echo "no hiredis, or no openssl"; return 1; }; }
need_lintian() { need_program lintian; }

setup_file() {
  [[ $(need_dpkg) ]] || build_package >"$BATS_FILE_TMPDIR/build.log" 2>&1 || cat "$BATS_FILE_TMPDIR/build.log"
}

teardown() {
  stop_machine
  cgroup_remove "$(groups_path)" || :
}

build_package() {
  MAKEFLAGS='' DEB_BUILD_OPTIONS='nocheck noautodbgsym' \
    timeout 300 make -C "${VL_BUILD_DIR:-$TOP}" deb debdir="$BATS_FILE_TMPDIR/deb" 3>&- 4>&-
}

package_file() { compgen -G "$BATS_FILE_TMPDIR/deb/${PACKAGE}_*.deb"; }
groups_path()  { printf '/vl-test-package-%s\n' "${VL_TEST_ID:-$$}"; }

# ---- use of the package ------------------------------------------------------

# Removes all packages of Apache; apt installs the dependencies.
clean_the_machine() {
  try on_machine dpkg --configure -a        # completes an interrupted installation on this machine
  try on_machine apt-get purge -qy 'apache2*' 'libapache2*' 'libcgroup*'
  try on_machine rm -rf /etc/apache2 /var/lib/apache2 /usr/lib/apache2 /var/lib/man-db/auto-update
  files_before=$(files_of_module)
  put_on_machine /root/package.deb <"$(package_file)"
}

fetch_packages() {
  try with_network apt-get install -qy --download-only /root/package.deb && ((status == 0)) && return
  try with_network apt-get update -q
  try with_network apt-get install -qy --download-only /root/package.deb
  ((status == 0)) || ! grep -qE 'Failed to fetch|Could not resolve|Unable to fetch|no installation candidate' <<<"$output" ||
    skip "the packages' mirror cannot be reached"
  is "$status" 0 "apt-get install --download-only"
}

install_package() {
  try on_machine apt-get install -qy /root/package.deb
  is "$status" 0 "apt-get install"
  on_machine a2query -m vhostlimit >/dev/null && fail "enabled without being asked"
  try on_machine service apache2 start      # policy-rc.d may forbid the start by the package
  is "$status" 0 "start"
  wait_until 10 answers 127.0.0.1 200
}

# Two sites, one of them slow.
make_sites() {
  local name
  for name in shop blog; do
    on_machine mkdir -p "/srv/$name"
    put_on_machine "/srv/$name/index.html" <<<"$name"
    put_on_machine "/etc/apache2/sites-available/$name.conf" <<END
<VirtualHost *:80>
  ServerName $name.example
  DocumentRoot /srv/$name
  ScriptAlias /slow /srv/slow
  <Directory /srv>
    Require all granted
  </Directory>
  <IfModule vhostlimit_module>
    VhostLimitConcurrency 2
  </IfModule>
</VirtualHost>
END
  done
  printf '#!/bin/sh\nsleep 0.2\nprintf "Content-Type: text/plain\\n\\nslow"\n' | put_on_machine /srv/slow
  on_machine chmod 755 /srv/slow
  # Groups of its own: another server on this machine may use the default path.
  printf '<IfModule vhostlimit_module>\nVhostLimitCgroup %s\n</IfModule>\n' "$(groups_path)" |
    put_on_machine /etc/apache2/conf-available/groups.conf
  on_machine a2enmod -q cgid
  on_machine a2ensite -q shop blog
  on_machine a2enconf -q groups
}

restart_apache() {
  try on_machine apache2ctl configtest
  is "$status" 0 "configtest"
  try on_machine service apache2 restart
  is "$status" 0 "restart"
}

enable_module() {
  try on_machine a2enmod vhostlimit
  is "$status" 0 "a2enmod"
  restart_apache
  wait_until 10 answers shop.example 200
  is "$(status_of shop mode)" dryrun "mode as installed"
}

switch_on() {
  try on_machine sed -i 's/^VhostLimit DryRun$/VhostLimit On/' /etc/apache2/mods-available/vhostlimit.conf
  restart_apache
  wait_until 10 status_is shop mode on
}

begin_flood() {
  on_machine ab -q -c 50 -n 300 -s 30 -H 'Host: shop.example' http://127.0.0.1/slow \
    >"$BATS_TEST_TMPDIR/flood" 2>&1 &
  flood_pid=$!
}

look() {
  wait_until 10 waits_at_least shop 20
  is "$(status_of shop running)" 2 "requests of the flooded site that run"
  answers blog.example 200
  like "$(on_machine curl -s "$STATUS")" 'shop\.example' "the page"
}

change_weight() {
  if [[ -n $(find "$TOP" -name 'vhostlimitctl*' ! -path '*/deb/*') ]]; then
    try on_machine vhostlimitctl set shop.example weight=300
    is "$status" 0 "vhostlimitctl set"
    wait_until 5 status_is shop weight 300
    try on_machine vhostlimitctl show shop.example
    like "$output" 300 "vhostlimitctl show"
  fi
}

end_flood() {
  wait "$flood_pid"
  cat "$BATS_TEST_TMPDIR/flood"
  like "$(<"$BATS_TEST_TMPDIR/flood")" 'Complete requests: +300' "requests of the flood"
  like "$(<"$BATS_TEST_TMPDIR/flood")" 'Failed requests: +0' "of them failed"
  at_least "$(status_of shop queued)" 200 "queued requests"
  wait_until 5 status_is blog waiting 0
}

remove_package() {
  try on_machine apt-get purge -qy "$PACKAGE"
  is "$status" 0 "apt-get purge"
  restart_apache
  wait_until 10 answers shop.example 200
  try on_machine apache2ctl -M
  is "$(grep -c vhostlimit <<<"$output")" 0 "modules of this package in Apache"
  is "$(files_of_module)" "$files_before" "files left"
  wait_until 5 cgroup_gone "$(groups_path)"
}

# Files of the test bed on the host do not count.
files_of_module() { on_machine find /etc /usr /var/lib /var/log /run -path /etc/netns -prune -o -iname '*vhostlimit*' -print; }

answers() { # <host> <status>
  [[ $(on_machine curl -s -o /dev/null -m 10 -w '%{http_code}' -H "Host: $1" http://127.0.0.1/) == "$2" ]]
}

status_of() { # <site> <column>
  on_machine curl -s -m 10 "$STATUS?json" | jq -er --arg n "$1.example" --arg c "$2" \
    '.vhosts[] | select(.name == $n) | .[$c]'
}

status_is()      { [[ $(status_of "$1" "$2") == "$3" ]]; }     # <site> <column> <value>
waits_at_least() { (($(status_of "$1" waiting) >= $2)); }      # <site> <number>

# ---- tests -------------------------------------------------------------------

@test "make deb builds a package without an error of lintian" {
  requires dpkg lintian
  package_file || fail "no package was built"
  try lintian --fail-on error --allow-root "$(package_file)"
  is "$status" 0
}

@test "the daemon for several servers has a package of its own, with unit, configuration and manual" {
  requires dpkg lintian systemd_analyze
  local package root=$BATS_TEST_TMPDIR/root
  package=$(compgen -G "$BATS_FILE_TMPDIR/deb/vhostlimit-fleet_*.deb") || fail "no package was built"
  try lintian --fail-on error --allow-root "$package"
  is "$status" 0 "lintian"
  dpkg-deb -x "$package" "$root"
  is "$(dpkg-deb -I "$package" conffiles)" /etc/vhostlimit-fleet.conf "files that an update keeps"
  like "$(dpkg-deb -f "$package" Depends)" 'libhiredis'
  like "$(zcat "$root/usr/share/man/man8/vhostlimit-fleet.8.gz")" 'sentinel'
  try "$root/usr/sbin/vhostlimit-fleet" -t -c "$root/etc/vhostlimit-fleet.conf"
  is "$status $output" '0 Syntax OK'
  like "$(<"$root/lib/systemd/system/vhostlimit-fleet.service")" 'ExecStart=/usr/sbin/vhostlimit-fleet'
  sed "s,/usr/sbin/,$root&," "$root/lib/systemd/system/vhostlimit-fleet.service" >"$BATS_TEST_TMPDIR/vhostlimit-fleet.service"
  try systemd-analyze verify --man=no --recursive-errors=no "$BATS_TEST_TMPDIR/vhostlimit-fleet.service"
  is "$status $output" '0 '
  dpkg-deb -x "$(package_file)" "$BATS_TEST_TMPDIR/module"
  is "$(find "$BATS_TEST_TMPDIR/module" -name 'vhostlimit-fleet*')" '' "files of the daemon in the package of the module"
}

@test "the package is installed, enabled, flooded, inspected, changed and removed" {
  requires long dpkg machine
  package_file || fail "no package was built"
  start_machine
  clean_the_machine
  fetch_packages
  install_package
  make_sites
  enable_module
  switch_on
  begin_flood
  look
  change_weight
  end_flood
  remove_package
}

@test "the RPM spec is valid and has the version of configure.ac" {
  local rpmspec=${VL_BUILD_DIR:-$TOP}/packaging/mod_vhostlimit.spec
  requires rpmspec
  try rpmspec -q --srpm --qf '%{VERSION}\n' "$rpmspec"
  is "$status" 0
  is "${lines[-1]}" "$(version)" "version"
  try rpmspec -q --qf '%{NAME}\n' "$rpmspec"
  like "$output" 'vhostlimit-fleet' "packages"
}

@test "the package's change log has the version of configure.ac" {
  like "$(head -n 1 "$TOP/packaging/debian/changelog")" "^mod-vhostlimit \\($(version)-[0-9]+\\) "
}

need_systemd_analyze() { need_program systemd-analyze; }
need_rpmspec() { need_program rpmspec; }
version()      { sed -nE 's/^AC_INIT\(\[mod_vhostlimit\], \[(.*)\]\)$/\1/p' "$TOP/configure.ac"; }
