#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The package for Debian and Ubuntu, as `make deb` builds it, and its use by an operator on
# a separate machine.
# shellcheck disable=SC2153,SC2154  # STATUS and files_before are of lib/package

load lib/common
load lib/cgroup
load lib/machine
load lib/package

need_lintian() { need_program lintian; }

setup_file() { build_package; }

teardown() { end_package; }

# ---- use of the package ------------------------------------------------------

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
    wait_until 20 status_is shop weight 300
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
  wait_until 20 status_is blog waiting 0
}

remove_package() {
  try on_machine apt-get purge -qy "$PACKAGE"
  is "$status" 0 "apt-get purge"
  restart_apache
  wait_until 10 answers shop.example 200
  try on_machine apache2ctl -M
  is "$(grep -c vhostlimit <<<"$output")" 0 "modules of this package in Apache"
  is "$(files_of_module)" "$files_before" "files left"
  wait_until 20 cgroup_gone "$(groups_path)"
}

waits_at_least() { (($(status_of "$1" waiting) >= $2)); }      # <site> <number>

# The machine's own Apache with two sites, one of which gets requests all the time.
make_busy_server() {
  clean_the_machine
  fetch_packages
  try on_machine apt-get install -qy apache2
  is "$status" 0 "apt-get install apache2"
  fetch_packages                            # apt may keep no archives
  make_sites
  try on_machine service apache2 restart
  wait_until 10 answers shop.example 200
  on_machine bash -c 'while curl -s -m 5 -o /dev/null -H "Host: shop.example" http://127.0.0.1/slow || sleep 0.1; do :; done' &
}

# ---- tests -------------------------------------------------------------------

@test "make deb builds packages without an error of lintian" {
  requires dpkg lintian
  package_file || fail "no package was built"
  try lintian --fail-on error --allow-root "$(package_file)" "$(fleet_package)"
  is "$status" 0
}

@test "the daemon for several servers has a package of its own, with unit, configuration and manual" {
  requires dpkg systemd_analyze
  local package unit root=$BATS_TEST_TMPDIR/root
  package=$(fleet_package)
  dpkg-deb -x "$package" "$root"
  is "$(dpkg-deb -I "$package" conffiles)" /etc/vhostlimit-fleet.conf "files that an update keeps"
  like "$(dpkg-deb -f "$package" Depends)" 'libhiredis'
  like "$(zcat "$root/usr/share/man/man8/vhostlimit-fleet.8.gz")" 'sentinel'
  try "$root/usr/sbin/vhostlimit-fleet" -t -c "$root/etc/vhostlimit-fleet.conf"
  is "$status $output" '0 Syntax OK'
  unit=$(cat "$root"/{,usr/}lib/systemd/system/vhostlimit-fleet.service 2>/dev/null) || :    # below /usr since Debian 13
  like "$unit" 'ExecStart=/usr/sbin/vhostlimit-fleet'
  printf '%s\n' "${unit//\/usr\/sbin\//$root/usr/sbin/}" >"$BATS_TEST_TMPDIR/vhostlimit-fleet.service"
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

@test "adopt.sh names the busy site in a minute, and a minute later nothing is left" {
  requires dpkg machine
  start_machine
  make_busy_server
  try on_machine "$TOP/tools/adopt.sh" /root/package.deb
  is "$status" 0
  like "$output" 'The site that takes the workers: shop\.example \(([0-9]|[1-5][0-9]) s\)'
  like "$output" $'files +left: 0\nprocesses +left: 0\ncgroups +left: 0\n/etc +left: 0\nRemoved \\(([0-9]|[1-5][0-9]) s\\)'
  wait_until 20 cgroup_gone "$(groups_path)"
  answers blog.example 200
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
fleet_package() { compgen -G "$BATS_FILE_TMPDIR/deb/vhostlimit-fleet_*.deb" || fail "no package was built"; }
need_rpmspec() { need_program rpmspec; }
version()      { sed -nE 's/^AC_INIT\(\[mod_vhostlimit\], \[(.*)\]\)$/\1/p' "$TOP/configure.ac"; }
