# SPDX-License-Identifier: Apache-2.0
# needs: dpkg machine
#
# The package for Debian and Ubuntu, as `make deb` builds it, installed on a machine of its own
# (lib/machine.bash).
# shellcheck disable=SC2154  # status and output are of bats

PACKAGE=libapache2-mod-vhostlimit
STATUS=http://127.0.0.1/vhostlimit-status

need_dpkg()    { need_program dpkg-buildpackage && need_program dh_apache2 && need_hiredis; }
need_hiredis() { pkg-config --exists hiredis openssl || { echo "no hiredis, or no openssl"; return 1; }; }

# For setup_file: a file without the programs skips its tests later. In the short form the
# compiler does not optimize: the tests of that form read the packages only.
build_package() {
  local options='nocheck noautodbgsym'
  [[ -z $(need_dpkg) ]] || return 0
  [[ ${VL_LONG:-0} != 0 ]] || options+=' noopt'
  MAKEFLAGS='' DEB_BUILD_OPTIONS=$options \
    flock "${VL_BUILD_DIR:-$TOP}/configure" timeout 300 make -C "${VL_BUILD_DIR:-$TOP}" deb debdir="$BATS_FILE_TMPDIR/deb" >"$BATS_FILE_TMPDIR/build.log" 2>&1 3>&- 4>&- ||
    cat "$BATS_FILE_TMPDIR/build.log"
}

# For teardown.
end_package() {
  stop_machine
  cgroup_remove "$(groups_path)" || :
}

package_file() { compgen -G "$BATS_FILE_TMPDIR/deb/${PACKAGE}_*.deb" || fail "no package was built"; }
groups_path()  { printf '/vl-test-package-%s\n' "${VL_TEST_ID:-$$}"; }

# Removes all packages of Apache; apt installs the dependencies.
clean_the_machine() {
  on_machine rm -rf /var/lib/man-db/auto-update     # else each installation indexes all manuals
  try on_machine dpkg --configure -a        # completes an interrupted installation on this machine
  try on_machine apt-get purge -qy 'apache2*' 'libapache2*' 'libcgroup*'
  try on_machine rm -rf /etc/apache2 /var/lib/apache2 /usr/lib/apache2
  # shellcheck disable=SC2034  # of the tests
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

restart_apache() {
  try on_machine apache2ctl configtest
  is "$status" 0 "configtest"
  try on_machine service apache2 restart
  is "$status" 0 "restart"
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
