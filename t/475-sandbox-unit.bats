#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# vhostlimitctl unit and enter: the unit of systemd for a site's pool of PHP-FPM. t/460 starts
# one under systemd.
#
# needs: systemd

load lib/live
load lib/control
load lib/sandbox

UNIT=/etc/systemd/system/vhostlimit-fpm@a.test.service
ENTER=/etc/systemd/system/vhostlimit-enter@a.test.service
POOL=/etc/php/vhosts/a.test.conf

teardown() { all_of look_for_leftovers end_server remove_files; }
remove_files() { rm -rf "$UNIT" "$ENTER" "$POOL" /run/vl-unit; }

setup() { requires root ctl php_fpm systemd_analyze; }
need_systemd_analyze() { need_program systemd-analyze; }

# A server without sandboxes: the unit needs the rules only.
serve() { start_httpd 'VhostLimit On' "$@"; }

# What systemd says of units, without what it says of other packages' units.
verify() { systemd-analyze verify --man=no "$@" 2>&1 | grep -v '^/lib/systemd/system/'; }   # <file>...

# Prints the unit of the site, and checks it: systemd accepts it without a word.
unit() { # <option of vhostlimitctl unit>...
  local file=$BATS_TEST_TMPDIR/vhostlimit-fpm@a.test.service
  ctl unit a.test "$@" >"$file" || return
  is "$(verify "$file")" '' || return
  cat "$file"
}

has_line() { grep -qxF -- "$2" <<<"$1" || fail "no line '$2' in: $1"; }   # <text> <line>
has_no()   { ! grep -qF -- "$2" <<<"$1" || fail "'$2' is in: $1"; }       # <text> <part>

# Prints the exposure in tenths, as systemd-analyze security knows it.
exposure() { # <file>
  systemd-analyze security --offline=yes "$1" | sed -n 's/.*exposure level for .*: \([0-9]*\)\.\([0-9]\).*/\1\2/p'
}

@test "systemd accepts the unit, and its exposure is at most 2.0, or 2.5 with Files" {
  local mode most tenths
  for mode in Off Full Files; do
    most=20
    [[ $mode != Files ]] || most=25
    serve -v "a VhostLimitSandbox $mode"
    unit >/dev/null
    tenths=$(exposure "$BATS_TEST_TMPDIR/vhostlimit-fpm@a.test.service")
    at_least "$most" "$tenths" "$mode: most exposure, in tenths"
    at_least "$tenths" 1 "$mode: exposure"
    end_server
  done
}

@test "the unit has the rules of the site's sandbox" {
  local unit
  mkdir -p /run/vl-unit/{read,write,hidden}
  serve -v 'a VhostLimitSandbox Full' -v "b DocumentRoot $HTTPD_ROOT/htdocs/a/sub" -v 'a VhostLimitSandboxPath ro /run/vl-unit/read' \
    -v 'a VhostLimitSandboxPath rw /run/vl-unit/write' -v 'a VhostLimitSandboxPath hide "/run/vl-unit/hid den%"' -v 'a VhostLimitSandboxPath tmp /srv'
  unit=$(unit)
  has_line "$unit" 'TemporaryFileSystem=/:ro'
  has_line "$(<"$TOP/conf/systemd/vhostlimit-fpm@.service")" "$(sed -n '/^WantedBy=/s/httpd/apache2/p;/^WantedBy=.*apache2/p' <<<"$unit")"
  has_line "$unit" 'PrivateTmp=yes'
  has_line "$unit" 'NoNewPrivileges=yes'
  has_line "$unit" "BindPaths=\"-$HTTPD_ROOT/htdocs/a\""
  has_line "$unit" "InaccessiblePaths=\"-$HTTPD_ROOT/htdocs/a/sub\""
  has_line "$unit" 'BindReadOnlyPaths="-/usr"'
  has_line "$unit" 'BindReadOnlyPaths="/run/vl-unit/read"'
  has_line "$unit" 'BindPaths="/run/vl-unit/write"'
  has_line "$unit" 'InaccessiblePaths="-/run/vl-unit/hid den%%"'
  has_line "$unit" 'TemporaryFileSystem="/srv:rw,nosuid,nodev,mode=1777,size=256m,nr_inodes=100k"'
  has_no "$unit" "$HTTPD_ROOT/htdocs/c"
}

@test "with Files the unit leaves /tmp, and with Off it has the rules of Full" {
  local unit
  serve -v 'a VhostLimitSandbox Files'
  unit=$(unit)
  has_line "$unit" 'BindPaths="-/tmp"'
  has_no "$unit" PrivateTmp
  end_server
  serve
  unit=$(unit)
  has_line "$unit" '# VhostLimitSandbox is off. The rules are those of Full.'
  has_line "$unit" 'PrivateTmp=yes'
  has_line "$unit" "BindPaths=\"-$HTTPD_ROOT/htdocs/a\""
}

@test "with systemd 257 the unit has PrivatePIDs, with Files it has not" {
  local version
  mkdir "$BATS_TEST_TMPDIR/bin"
  for version in 256 257; do
    printf '#!/bin/sh\necho "systemd %s (%s)"\n' "$version" "$version" >"$BATS_TEST_TMPDIR/bin/systemctl"
    chmod 755 "$BATS_TEST_TMPDIR/bin/systemctl"
    serve -v 'b VhostLimitSandbox Files'
    is "$(PATH=$BATS_TEST_TMPDIR/bin:$PATH ctl unit a.test | grep -cx PrivatePIDs=yes)" "$((version == 257))" "systemd $version"
    is "$(PATH=$BATS_TEST_TMPDIR/bin:$PATH ctl unit b.test | grep -c PrivatePIDs)" 0 "Files, systemd $version"
    end_server
  done
}

@test "the pool's user is the owner of the documents, Apache's if that is root, or that of --user" {
  local unit
  serve
  has_line "$(unit)" "User=$(httpd_user)"
  chown daemon "$HTTPD_ROOT/htdocs/a"
  unit=$(unit)
  has_line "$unit" 'User=daemon'
  has_line "$unit" "Group=$(id -gn daemon)"
  has_line "$(unit --user bin)" 'User=bin'
  try ctl unit a.test --user nosuchuser
  is "$status $output" '1 vhostlimitctl: there is no user nosuchuser'
  try ctl unit a.test --user root
  like "$status $output" '^1 .*a pool does not run as root'
}

@test "a site that is not there, wrong options and no server are errors" {
  serve
  try ctl unit none.test
  like "$status $output" "^1 .*'none.test' is no site that takes part"
  try ctl unit a.test --install --remove
  is "$status" 2
  try ctl top --install
  is "$status" 2
  try ctl unit
  is "$status" 2
  try "$CTL" -s "$BATS_TEST_TMPDIR/none" unit a.test
  is "$status" 69
}

@test "without PHP-FPM, with another version or with several, the message names what there is" {
  local real version
  serve
  real=$(realpath "$(php_fpm_program | sed -n 1p)")
  version=$("$real" -v | sed -n 's/^PHP \([0-9]*\.[0-9]*\).*/\1/p')
  has_line "$(unit --php "$version" | sed 's/ --nodaemonize.*//')" "ExecStart=$real"
  has_line "$(unit --php "$real" | sed 's/ --nodaemonize.*//')" "ExecStart=$real"
  try ctl unit a.test --php 4.9
  is "$status $output" "1 vhostlimitctl: PHP-FPM 4.9 is not installed: there is $version ($real)"
  try ctl unit a.test --php /bin/true
  is "$status $output" '1 vhostlimitctl: /bin/true is not a program of PHP-FPM'
  mount -t tmpfs tmpfs /usr/local/sbin
  printf '#!/bin/sh\necho "PHP 9.9.1 (fpm-fcgi)"\n' >/usr/local/sbin/php-fpm9.9
  chmod 755 /usr/local/sbin/php-fpm9.9
  try ctl unit a.test
  is "$status $output" "1 vhostlimitctl: there is more than one PHP-FPM: $version ($real), 9.9 (/usr/local/sbin/php-fpm9.9). Choose one with --php VERSION or --php /PATH"
  has_line "$(unit --php 9.9 | sed 's/ --nodaemonize.*//')" 'ExecStart=/usr/local/sbin/php-fpm9.9'
  umount /usr/local/sbin
  mount --bind /dev/null "$real"
  try ctl unit a.test
  umount "$real"
  like "$status $output" '^1 vhostlimitctl: no PHP-FPM is installed'
}

@test "--install writes unit and pool file, and --remove removes the unit" {
  serve 'VhostLimitCgroup off'
  try ctl unit a.test --install
  like "$status $output" "^0 $UNIT: written"$'\n'"$POOL: written"
  is "$(<"$UNIT")" "$(ctl unit a.test)"
  is "$(stat -c %a "$UNIT")" 644
  as_nobody "$(php_fpm_program | sed -n 1p)" -n -t -y "$POOL"
  echo '; changed' >>"$POOL"
  echo '# changed' >>"$UNIT"
  try ctl unit a.test --install
  like "$status $output" "^0 .*$POOL: was there and stays as it is"
  is "$(<"$UNIT")" "$(ctl unit a.test)"
  like "$(<"$POOL")" '; changed$'
  end_server                    # the site may be gone
  try ctl unit a.test --remove
  is "$status $output" "0 $UNIT: removed"$'\n'"$POOL: stays"
  [[ ! -e $UNIT && -e $POOL ]]
  try ctl unit a.test --remove
  is "$status $output" "1 vhostlimitctl: there is no $UNIT"
}

@test "a unit that another program made is neither replaced nor removed without --force" {
  serve
  mkdir -p "${UNIT%/*}"
  echo '[Unit]' >"$UNIT"
  try ctl unit a.test --install
  is "$status $output" "1 vhostlimitctl: $UNIT was not made by vhostlimitctl and stays as it is; --force overrides this"
  [[ ! -e $POOL ]]
  try ctl unit a.test --remove
  is "$status" 1
  is "$(<"$UNIT")" '[Unit]'
  try ctl unit a.test --install --force
  is "$status" 0
  like "$(<"$UNIT")" '^# Made by "vhostlimitctl unit" for site a.test'
  ln -sf /dev/null "$UNIT"      # masked
  try ctl unit a.test --install
  is "$status" 1
  try ctl unit a.test --remove --force
  is "$status" 0
  [[ ! -L $UNIT ]]
}

@test "the pool file works for a master that is not root, and Apache's user alone may connect" {
  local socket=/run/vhostlimit-fpm/a.test/fpm.sock pool
  requires mod_proxy_fcgi
  serve -l proxy -l proxy_fcgi -v $'a <FilesMatch "\\.php$">\nSetHandler "proxy:unix:'"$socket"$'|fcgi://a.test/"\n</FilesMatch>'
  echo '<?php echo fileowner("/proc/self");' >"$HTTPD_ROOT/htdocs/a/who.php"
  ctl unit a.test --user daemon --install
  sed -i "s,^error_log.*,error_log = $BATS_TEST_TMPDIR/log," "$POOL"
  install -d -o daemon "${socket%/*}"
  touch "$BATS_TEST_TMPDIR/log"
  chown daemon "$BATS_TEST_TMPDIR/log"
  setpriv --reuid daemon --regid "$(id -g daemon)" --clear-groups "$(php_fpm_program | sed -n 1p)" -n --nodaemonize -y "$POOL" 3>&- &
  pool=$!
  wait_until 20 test -S "$socket"
  is "$(get a /who.php) $(answer_body)" "200 $(id -u daemon)"
  # shellcheck disable=SC2016  # perl's own
  try setpriv --reuid nobody --clear-groups perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); exit(connect(S, pack_sockaddr_un($ARGV[0])) ? 0 : 1)' "$socket"
  kill "$pool"
  wait "$pool" || :
  is "$status" 1 "a connection of another user"
}

@test "enter moves a process and its children into the site's cgroup" {
  requires cgroups
  local group pid
  serve 'VhostLimitCgroup auto'
  group=$(status_json | jq -r '.vhosts[] | select(.name == "a.test").cgroup')
  bash -c 'tail -f /dev/null & tail -f /dev/null & wait' 3>&- &
  pid=$!
  wait_until 10 children_are "$pid" 2
  ctl enter a.test "$pid"
  like "$(<"/proc/$pid/cgroup")" ":$group"$'(\n|$)'
  like "$(cat "/proc/$(pgrep -P "$pid" | sed -n 2p)/cgroup")" ":$group"$'(\n|$)'
  pkill -P "$pid"
  wait "$pid" || :
  try ctl enter a.test 1x
  is "$status" 2
  try ctl enter none.test "$$"
  is "$status" 1
  try ctl enter a.test none.service
  is "$status $output" '1 vhostlimitctl: the service none.service does not run'
}

@test "enter moves processes that another thread than the first one has forked" {
  requires cgroups
  perl -Mthreads -e 1 2>/dev/null || skip "perl has no threads"
  local group pid child
  serve 'VhostLimitCgroup auto'
  group=$(status_json | jq -r '.vhosts[] | select(.name == "a.test").cgroup')
  perl -Mthreads -e 'threads->create(sub { open(my $end, "-|", "tail", "-f", "/dev/null"); sleep 1000 })->join' 3>&- &
  pid=$!
  wait_until 10 children_are "$pid" 1
  child=$(pgrep -P "$pid")
  ctl enter a.test "$pid"
  like "$(<"/proc/$child/cgroup")" ":$group"$'(\n|$)'
  kill "$pid" "$child"
  wait "$pid" || :
}

@test "with cgroups, --install writes the unit that moves the pool too, and --remove removes it" {
  requires cgroups
  serve 'VhostLimitCgroup auto'
  has_line "$(unit)" 'Wants=vhostlimit-enter@a.test.service'
  ctl unit a.test --install
  has_line "$(<"$ENTER")" "ExecStart=$(realpath "$CTL") -s \"$(control_socket)\" enter \"a.test\" vhostlimit-fpm@a.test.service"
  has_line "$(<"$ENTER")" 'PartOf=vhostlimit-fpm@a.test.service'
  is "$(verify "$UNIT" "$ENTER")" ''
  try ctl unit a.test --remove
  is "$status" 0
  [[ ! -e $ENTER && ! -e $UNIT ]]
}
children_are() { [[ $(pgrep -cP "$1") == "$2" ]]; }  # <pid> <number>

@test "enter says so where the site has no cgroup" {
  serve 'VhostLimitCgroup off'
  try ctl enter a.test "$$"
  is "$status $output" '1 vhostlimitctl: site a.test has no cgroup: see VhostLimitCgroup'
  has_no "$(unit)" vhostlimit-enter
}
