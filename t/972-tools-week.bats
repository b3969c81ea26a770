#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# An operator's week with the Debian package, on a machine of its own: 500 sites with plans, DryRun,
# the report, On, a flood, a lasting change, the history, two upgrades under load, the removal.
#
#   VL_LONG=1 bats --show-output-of-passing-tests t/972-tools-week.bats
# needs: ab
# shellcheck disable=SC2016  # of shells on the machine
# shellcheck disable=SC2153,SC2154  # STATUS and files_before are of lib/package

load lib/common
load lib/cgroup
load lib/machine
load lib/package

sites=500
CHECK=/usr/share/doc/$PACKAGE/examples/check_vhostlimit
SAVED=/etc/apache2/vhostlimit-saved.conf

setup_file() { [[ ${VL_LONG:-0} == 0 ]] || build_package; }

teardown() {
  cat "$BATS_TEST_TMPDIR"/flood* 2>/dev/null || :
  end_package
}

say() { echo "# $*" >&3; }

ctl() { on_machine vhostlimitctl "$@"; }

# ---- sites -------------------------------------------------------------------

# Site s1 has the plan silver, every tenth site the plan gold.
print_sites() {
  local i plan
  printf '<Directory /srv>\nRequire all granted\n</Directory>\n'
  for ((i = 1; i <= sites; i++)); do
    plan=silver
    ((i % 10)) || plan=gold
    printf '<VirtualHost *:80>\nServerName s%d.example\nDocumentRoot /srv/www\nScriptAlias /nap /srv/nap\n' "$i"
    printf '<IfModule vhostlimit_module>\nVhostLimitPlan %s\n</IfModule>\n</VirtualHost>\n' "$plan"
  done
}

# The groups have a name of their own: another server on this machine may use the default. Four
# slots and a page that sleeps make a queue without the CPUs that the clients need.
print_plans() {
  cat <<END
<IfModule vhostlimit_module>
VhostLimitCgroup $(groups_path)
VhostLimitSaveFile $SAVED
VhostLimitSlots 4
<VhostLimitPlan silver>
  VhostLimitQueue 40 30s
</VhostLimitPlan>
<VhostLimitPlan gold>
  VhostLimitWeight 300
</VhostLimitPlan>
</IfModule>
END
}

make_sites() {
  on_machine mkdir -p /srv/www
  put_on_machine /srv/www/index.html <<<page
  printf '#!/bin/sh\nsleep 0.1\nprintf "Content-Type: text/plain\\n\\npage"\n' | put_on_machine /srv/nap
  on_machine chmod 755 /srv/nap
  print_sites | put_on_machine /etc/apache2/sites-available/sites.conf
  print_plans | put_on_machine /etc/apache2/conf-available/plans.conf
  on_machine a2enmod -q cgid
  on_machine a2ensite -q sites
  on_machine a2enconf -q plans
  restart_apache
  wait_until 10 answers s1.example 200
}

reload_apache() {
  try on_machine service apache2 reload
  is "$status" 0 "reload"
}

# ---- load --------------------------------------------------------------------

# Clients that send one request after the other until /root/go is gone, each on a connection of
# its own, and write the statuses.
print_clients() {
  cat <<'END'
rm -rf /root/load
mkdir /root/load
client() { # <site> <path>
  while [[ -e /root/go ]]; do
    curl -qsS -o /dev/null -m 60 -H 'Connection: close' -H "Host: $1.example" -w '%{http_code}\n' "http://127.0.0.1$2?[1-10]" >>/root/load/$1
  done 2>>/root/load/errors
}
client s2 / &
client s3 /nap &
client s10 / &
wait
END
}

begin_load() {
  print_clients | put_on_machine /root/clients.sh
  on_machine touch /root/go
  on_machine bash /root/clients.sh &
  load_pid=$!
  load_goes_on
}

# Waits for 100 answers more.
load_goes_on() {
  local had
  had=$(load_answers)
  wait_until 60 load_has $((had + 100))
}
load_has()     { (($(load_answers) >= $1)); }     # <number>
load_answers() { on_machine sh -c 'cat /root/load/s* 2>/dev/null | wc -l'; }

# Prints how many requests there were of each status, and how many errors of clients.
end_load() {
  on_machine rm -f /root/go
  wait "$load_pid"
  # shellcheck disable=SC2016  # of the inner shell
  on_machine sh -c 'cat /root/load/s* | sort | uniq -c | xargs echo; [ ! -s /root/load/errors ] || sort /root/load/errors | uniq -c | sort -n | tail -n 3'
}

# Floods the site s1 until end_flood, with 150 requests at least.
begin_flood() {
  on_machine touch /root/flood
  on_machine sh -c 'while ab -q -c 60 -n 150 -s 60 -H "Host: s1.example" http://127.0.0.1/nap && [ -e /root/flood ]; do :; done' \
    >"$BATS_TEST_TMPDIR/flood" 2>&1 &
  flood_pid=$!
}

# Sets flooded to the number of requests, which all were answered with 200.
end_flood() {
  local runs
  on_machine rm -f /root/flood
  wait "$flood_pid" || fail "the flood"
  runs=$(grep -c "Concurrency Level" "$BATS_TEST_TMPDIR/flood" || :)
  is "$(grep -c 'Complete requests: *150$' "$BATS_TEST_TMPDIR/flood") $(grep -c 'Failed requests: *0$' "$BATS_TEST_TMPDIR/flood")" "$runs $runs" "the flood"
  unlike "$(<"$BATS_TEST_TMPDIR/flood")" 'Non-2xx' "the flood"
  flooded=$((runs * 150))
}

unlike() { [[ ! $1 =~ $2 ]] || fail "${3-text} has $2: $1"; }  # <text> <regex> [<what>]

# ---- the days ----------------------------------------------------------------

# What a reload and a restart of plain Apache do to these clients.
plain_apache() {
  local what
  for what in reload restart; do
    begin_load
    try on_machine service apache2 "$what"
    load_goes_on
    plain[$what]=$(end_load)
    say "plain Apache, $what: $(head -n 1 <<<"${plain[$what]}")"
  done
  like "${plain[reload]}" '^[0-9]+ 200$' "requests during a reload of plain Apache"
}

try_dryrun() {
  try on_machine a2enmod vhostlimit
  is "$status" 0 "a2enmod"
  restart_apache
  wait_until 20 status_is s1 mode dryrun
  is "$(status_of s1 plan) $(status_of s10 plan) $(status_of s10 weight)" 'silver gold 300'
  begin_flood
  end_flood
  is "$(status_of s1 queued) $(status_of s1 refused)" '0 0' "delayed and refused by DryRun"
  try ctl report
  like "${lines[0]}" "^s1\\.example: of $flooded requests, [1-9][0-9]* \\(" "report"
  is "${#lines[@]}" 3 "lines of the report: one for each site with queued requests, and a summary"
}

# As systemd would run the unit of the package.
start_collector() {
  on_machine sh -c 'install -d -m 750 -g www-data /var/lib/vhostlimit
    setsid setpriv --bounding-set=-all --regid www-data --clear-groups --no-new-privs vhostlimitctl collect 2>/root/collect.log & echo $! >/root/collect.pid
    setsid vhostlimitctl watch >/root/events 2>&1 &'
}

switch_on() {
  try on_machine sed -i 's/^VhostLimit DryRun$/VhostLimit On/' /etc/apache2/mods-available/vhostlimit.conf
  reload_apache
  wait_until 10 status_is s1 mode on
  follow_doctor
}

# Debian allows 8192 open files, and its a2enmod chooses mod_cgid. doctor says what to do.
follow_doctor() {
  local files programs
  try ctl doctor
  is "$status $(grep -c ^PROBLEM <<<"$output")" '1 2' "problems of the doctor"
  files=$(grep -o "APACHE_ULIMIT_MAX_FILES='ulimit -n [0-9]*'" <<<"$output")
  programs=$(grep -o 'a2dismod cgid; ln -s [^ ]* [^ ;]*' <<<"$output")
  on_machine sh -c 'echo "export $1" >>/etc/apache2/envvars' - "$files"
  try on_machine sh -c "$programs"
  restart_apache
  wait_until 20 status_is s1 mode on
  try ctl doctor
  is "$status $(grep -c ^PROBLEM <<<"$output")" '0 0' "problems of the doctor after its remedy"
}

check() { try on_machine bash "$CHECK"; }

is_alarmed() { check && ((status == 2)) && [[ $output == *"CRITICAL: s1.example uses "* ]]; }
explains()   { try ctl explain "$1.example" && [[ $output == *"$2"* ]]; }                        # <site> <text>
event_seen() { on_machine cat /root/events | jq -es "any(.[]; $1)" >/dev/null; }            # <jq condition>

survive_flood() {
  check
  is "$status" 0 "state before the flood"
  begin_load
  begin_flood
  wait_until 30 is_alarmed
  wait_until 20 explains s1 'The queue is full'
  wait_until 20 explains s3 'The loudest other site is s1.example: '
  wait_until 10 event_seen '.event == "queue" and .site == "s1.example" and .state == "begin"'
  end_flood
  load=$(end_load)
  like "$load" '^[0-9]+ 200$' "the other sites during the flood"
  check_is_quiet() { check && ((status == 0)); }
  wait_until 60 check_is_quiet
}

change_for_good() {
  try ctl set --save s1.example concurrency=3 weight=50
  is "$status" 0 "set --save"
  try ctl set --plan gold weight=400
  is "$status" 0 "set --plan"
  try ctl set s2.example weight=70 --for 1d
  is "$status" 0 "set --for"
  begin_flood
  wait_until 10 explains s1 'concurrency limit'
  end_flood
  wait_until 10 event_seen '.event == "limits_changed" and .site == "s1.example" and .to.weight == 50'
}

changes_hold() {
  is "$(status_of s1 concurrency) $(status_of s1 weight) $(status_of s10 weight) $(status_of s2 weight)" '3 50 400 70' "changed limits"
}

read_history() {
  on_machine sh -c 'kill -USR1 "$(cat /root/collect.pid)"'
  has_history() { (($(ctl history s1.example --json --since 1h | jq '[.minutes[].requests] | add // 0') >= flooded)); }
  wait_until 20 has_history
  at_least "$(ctl history s1.example --json --since 1h | jq '[.minutes[].queued] | add')" 100 "queued requests in the history"
  is "$(ctl history s1.example --json --since 1h | jq '[.minutes[].refused] | add')" 0
  like "$(ctl history s1.example --csv)" $'^time,.*\n20[0-9]+-.*,' "history"
}

# Makes a package of a later version. Its module says so, and may have another layout of shared
# memory. The last character of the version stays 0: the linker keeps the text "0", which the module
# writes into the cgroups' files, as the end of the version's text.
make_upgrade() { # <version> [other layout]
  local folder=$BATS_TEST_TMPDIR/upgrade so
  rm -rf "$folder"
  dpkg-deb -R "$(package_file)" "$folder"
  sed -i "s/^Version: .*/Version: $1-1/" "$folder/DEBIAN/control"
  so=$folder/usr/lib/apache2/modules/mod_vhostlimit.so
  [[ $1 == *.0 ]] || fail "version $1 does not end in .0"
  grep -q 'mod_vhostlimit/0\.2\.0' "$so" || fail "the module has no version to change"
  perl -pi -e "s,mod_vhostlimit/0\\.2\\.0,mod_vhostlimit/$1," "$so"
  [[ -z ${2-} ]] || perl -pi -e 's/(mod_vhostlimit:)(\d)(\d*-\d+)/$1 . (9 - $2) . $3/e' "$so"
  dpkg-deb --root-owner-group -b "$folder" "$folder.deb" >/dev/null
  put_on_machine /root/upgrade.deb <"$folder.deb"
}

runs_version() { [[ $(on_machine curl -s "$STATUS?json" | jq -r .module) == "mod_vhostlimit/$1" ]]; }

# Requests run, are queued and arrive while the package is upgraded.
upgrade() { # <as make_upgrade>
  make_upgrade "$@"
  begin_load
  begin_flood
  wait_until 20 waits_at_least s1 20
  try on_machine apt-get install -qy /root/upgrade.deb
  is "$status" 0 "apt-get install of the upgrade"
  wait_until 20 runs_version "$1"
  load_goes_on
  end_flood
  load=$(end_load)
  say "upgrade to $1${2+ ($2)}: $load"
  like "$load" '^[0-9]+ 200$' "requests during the upgrade"
}
waits_at_least() { (($(status_of "$1" waiting) >= $2)); }      # <site> <number>

remove_package() {
  on_machine sh -c 'kill "$(cat /root/collect.pid)"'
  try on_machine apt-get purge -qy "$PACKAGE"
  is "$status" 0 "apt-get purge"
  restart_apache                # invoke-rc.d restarts nothing where no runlevel is known
  wait_until 10 answers s1.example 200
  try on_machine apache2ctl -M
  unlike "$output" vhostlimit "modules of Apache"
  is "$(files_of_module)" "$files_before" "files left"
  wait_until 20 cgroup_gone "$(groups_path)"
}

# ---- the week ----------------------------------------------------------------

@test "an operator's week: installed, tried, flooded, changed, upgraded under load, removed" {
  requires long dpkg machine ab
  local machine_seconds=1200 load flooded requests_before
  local -A plain=()
  export machine_seconds
  package_file
  start_machine
  clean_the_machine
  fetch_packages
  install_package
  make_sites
  plain_apache
  try_dryrun
  start_collector
  switch_on
  survive_flood
  change_for_good
  changes_hold
  read_history
  requests_before=$(status_of s1 requests)
  upgrade 0.3.0
  at_least "$(status_of s1 requests)" $((requests_before + flooded)) "counters go on"
  changes_hold
  upgrade 0.4.0 'other layout'
  is "$(status_of s1 concurrency) $(status_of s1 weight)" '3 50' "saved limits"
  restart_apache
  wait_until 10 status_is s1 weight 50
  remove_package
}
