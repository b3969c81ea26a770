#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# panels: hooks of hosting panels put customers into groups and give these the plans of
# their packages. The hooks are run in the environment that each panel gives them.
# VL_PANELS names a folder with the panels' sources (t/panels/README.md).

load lib/live
load lib/control
load lib/imports

PANELS=$TOP/panels
FORMS=$TOP/t/panels
PLANS=$'<VhostLimitPlan gold>\nVhostLimitWeight 300\n</VhostLimitPlan>\n<VhostLimitPlan Small_Shop>\nVhostLimitConcurrency 5\n</VhostLimitPlan>'

need_phpcli()        { need_program php; }
need_idn2()          { need_program idn2; }
need_panel_sources() { [[ -d ${VL_PANELS-} ]] || { echo "VL_PANELS names no folder with sources of panels"; return 1; }; }

setup() {
  requires root ctl
  mkdir -p "$HTTPD_ROOT"
  # /etc belongs to this file (isolate.sh). The hooks have no options.
  [[ -e /run/vl-outer-net ]] || skip "needs t/lib/isolate.sh"
  FILE=/etc/apache2/vhostlimit-panel.conf
  MAP=$BATS_TEST_TMPDIR/map
  SITES=$BATS_TEST_TMPDIR/sites.conf
  mkdir -p /etc/apache2
  rm -f /etc/vhostlimit-panel.map "$FILE"*
  : >"$SITES"
  # What the panel's hook and the operator run as apachectl.
  mkdir -p "$BATS_TEST_TMPDIR/bin"
  cat >"$BATS_TEST_TMPDIR/bin/apache2ctl" <<END
#!/bin/sh
echo "\$*" >>"$BATS_TEST_TMPDIR/runs"
[ "\$1" != graceful ] || set -- -k graceful
exec "$(httpd_program)" -f "$HTTPD_ROOT/httpd.conf" "\$@"
END
  chmod +x "$BATS_TEST_TMPDIR/bin/apache2ctl"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH
  export CPANEL_ROOT=$BATS_TEST_TMPDIR/cpanel DIRECTADMIN=$BATS_TEST_TMPDIR/da
}

panel() { try "$PANELS/vhostlimit-panel" -f "$FILE" -m "$MAP" "$@"; }  # <option or panel>...

reloads() { grep -cx graceful "$BATS_TEST_TMPDIR/runs" 2>/dev/null || :; }

# Starts the server with the plans, the sites in a file, and the panel's file.
start_panel() { # <as start_httpd>...
  start_httpd 'VhostLimit On' "$PLANS" -x "IncludeOptional \"$SITES\"" -x "IncludeOptional \"$FILE\"" "$@"
}

site() { printf '<VirtualHost 127.0.0.1:%s>\nServerName %s\nDocumentRoot "%s/htdocs/a"\n</VirtualHost>\n' "$(httpd_port)" "$1" "$HTTPD_ROOT"; }  # <name>

# The plan of an account, and the virtual hosts of a group.
plan_of()  { ask 'status\n' | jq -r --arg n "$1" '.vhosts[] | select(.name == $n) | .plan | if . == "" then "none" else . end'; }  # <account>
sites_of() { ctl show "$1" | grep -oE '[a-z0-9._-]+\.example' | LC_ALL=C sort -u | xargs; }              # <account>

plan_of_is()  { [[ $(plan_of "$1") == "$2" ]]; }    # <account> <plan>
sites_of_is() { [[ $(sites_of "$1") == "$2" ]]; }   # <account> <names>

accepted() {
  try "$(httpd_program)" -t -f "$HTTPD_ROOT/httpd.conf"
  is "$status" 0 "$output"
  is "$(grep VL0063 <<<"$output")" '' "sections without a site"
}

# ---- HestiaCP --------------------------------------------------------------------------

# A HestiaCP with users; the second argument is the package.
hestia_user() { # <user> <package>
  mkdir -p "$HESTIA/data/users/$1" "$HESTIA/data/packages"
  printf "NAME='%s'\nPACKAGE='%s'\nSUSPENDED='no'\n" "$1" "$2" >"$HESTIA/data/users/$1/user.conf"
  touch "$HESTIA/data/users/$1/web.conf"
  ln -sfn "$PANELS/hestiacp-package.sh" "$HESTIA/data/packages/$2.sh"
}

# Writes the virtual host and runs the template's trigger, before the line of web.conf, as
# v-add-web-domain does. The template is $template.
hestia_domain() { # <user> <domain>
  local user=$1 domain=$2
  local folder=$HTTPD_ROOT/home/$user/conf/web/$domain
  mkdir -p "$folder"
  sed -e "s|%ip%|127.0.0.1|g" -e "s|%web_port%|$(httpd_port)|g" -e "s|%domain%|$domain|g" -e "s|%domain_idn%|$domain|g" \
    -e "s|%alias_string%|ServerAlias www.$domain|g" -e "s|%docroot%|$HTTPD_ROOT/htdocs/a|g" -e "s|%home%|$HTTPD_ROOT/home|g" \
    -e "s|%user%|$user|g" -e "s|%web_system%|apache2|g" "$template" >>"$SITES"
  "${template/.*pl/.sh}" "$user" "$domain" 127.0.0.1 "$HTTPD_ROOT/home" "$HTTPD_ROOT/home/$user/web/$domain/public_html"
  printf "DOMAIN='%s' IP='127.0.0.1' IP6='' ALIAS='www.%s' TPL='default' SUSPENDED='no'\n" "$domain" "$domain" \
    >>"$HESTIA/data/users/$user/web.conf"
}

begin_hestia() {
  export HESTIA=$BATS_TEST_TMPDIR/hestia
  template=$HESTIA/data/templates/web/apache2/php-fpm/default.tpl
  mkdir -p "${template%/*}"
  cp "$FORMS/hestiacp.tpl" "$template"
  ln -s "$PANELS/hestiacp-template.sh" "${template%.tpl}.sh"
}

@test "HestiaCP: a web domain gets the group of its user, before HestiaCP has listed it, and its plan" {
  begin_hestia
  start_panel
  hestia_user anna gold
  hestia_domain anna anna.example
  hestia_domain anna shop.anna.example
  hestia_user bert unknown
  hestia_domain bert bert.example
  accepted
  is "$(reloads)" 0 "reloads by the template's trigger"
  graceful_httpd
  is "$(plan_of @anna)" gold
  is "$(sites_of @anna)" 'anna.example shop.anna.example'
  is "$(plan_of @bert)" none
  is "$(sites_of @bert)" bert.example
}

@test "HestiaCP: another package changes the plan, and Apache is reloaded" {
  begin_hestia
  start_panel
  hestia_user anna gold
  hestia_domain anna anna.example
  printf '%s\n' '# plan and package' 'Small_Shop  small' >/etc/vhostlimit-panel.map
  hestia_user anna small
  "$HESTIA/data/packages/small.sh" anna anna@anna.example Anna
  is "$(reloads)" 1 "reloads"
  wait_until 10 plan_of_is @anna Small_Shop
  "$HESTIA/data/packages/small.sh" anna anna@anna.example Anna
  is "$(reloads)" 1 "reloads without a change"
}

@test "HestiaCP: names with other letters than ASCII, and users without a package" {
  requires idn2
  begin_hestia
  hestia_user anna gold
  printf "DOMAIN='b\303\274cher.example' IP=''\nDOMAIN='a.example' IP='' ALIAS='DOMAIN'\n" >"$HESTIA/data/users/anna/web.conf"
  mkdir "$HESTIA/data/users/bert"
  printf "DOMAIN='bert.example' IP=''\n" >"$HESTIA/data/users/bert/web.conf"
  panel -n hestiacp
  is "$(grep '^<VhostLimitSite\|^ ' <<<"$output" | xargs)" '<VhostLimitSite @anna> VhostLimitPlan gold <VhostLimitSite a.example> VhostLimitGroup anna <VhostLimitSite xn--bcher-kva.example> VhostLimitGroup anna <VhostLimitSite bert.example> VhostLimitGroup bert'
}

# ---- Virtualmin ------------------------------------------------------------------------

virtual_server() { # <id> <line>...
  mkdir -p "$WEBMIN_CONFIG/virtual-server/domains" "$WEBMIN_CONFIG/virtual-server/plans"
  printf '%s\n' "id=$1" "${@:2}" >"$WEBMIN_CONFIG/virtual-server/domains/$1"
}

virtual_plan() { mkdir -p "$WEBMIN_CONFIG/virtual-server/plans"; printf 'name=%s\nid=%s\n' "$2" "$1" >"$WEBMIN_CONFIG/virtual-server/plans/$1"; }  # <id> <name>

# Runs the command after changes, as made_changes() of Virtualmin does.
changed() { # <action> <domain> <user>
  VIRTUALSERVER_ACTION=$1 VIRTUALSERVER_DOM=$2 VIRTUALSERVER_USER=$3 sh -c "($PANELS/virtualmin-changed.sh) 2>&1 </dev/null"
}

begin_virtualmin() {
  export WEBMIN_CONFIG=$BATS_TEST_TMPDIR/webmin
  virtual_plan 0 'Default Plan'
  virtual_plan 1234 'Small Shop'
  virtual_server 11 dom=anna.example user=anna plan=1234 web=1 unix=1
  virtual_server 10 dom=shop.anna.example user=anna plan=0 parent=11 web=1
  virtual_server 13 dom=alias.anna.example user=anna parent=11 alias=11 web=1 alias_mode=1
  virtual_server 14 dom=mail.anna.example user=anna parent=11 mail=1
  virtual_server 15 dom=bert.example user=bert plan=0 web=1
  { site anna.example; site shop.anna.example; site bert.example; site mail.anna.example; } >"$SITES"
}

@test "Virtualmin: sub-servers are in the group of the owner, with the owner's plan" {
  begin_virtualmin
  start_panel
  changed CREATE_DOMAIN anna.example anna
  accepted
  is "$(reloads)" 1
  wait_until 10 plan_of_is @anna Small_Shop
  is "$(sites_of @anna)" 'anna.example shop.anna.example'
  is "$(sites_of @bert) $(plan_of @bert)" 'bert.example none'
}

@test "Virtualmin: other changes do nothing, and a deleted virtual server leaves its group" {
  begin_virtualmin
  start_panel
  changed BACKUP_DOMAIN anna.example anna
  [[ ! -e $FILE ]] || fail "a backup has written the file"
  changed MODIFY_DOMAIN anna.example anna
  rm "$WEBMIN_CONFIG/virtual-server/domains/10"
  changed DELETE_DOMAIN shop.anna.example anna
  is "$(grep -c 'shop.anna.example' "$FILE")" 0
  wait_until 10 sites_of_is @anna anna.example
}

# ---- ISPConfig -------------------------------------------------------------------------

isp_tables() { # [<jq filter>]
  jq -n '{
    web_domain: [
      {domain: "anna.example", system_group: "client5", server_id: 1, active: "y"},
      {domain: "shop.anna.example", system_group: "client5", server_id: 1, active: "y"},
      {domain: "bert.example", system_group: "client7", server_id: 1, active: "y"},
      {domain: "off.example", system_group: "client7", server_id: 1, active: "n"},
      {domain: "panel.example", system_group: "client0", server_id: 1, active: "y"},
      {domain: "far.example", system_group: "client5", server_id: 2, active: "y"}],
    client: [{client_id: 5, template_name: "Small Shop"}, {client_id: 7, template_name: null}],
    events: ["web_domain_insert", "web_domain_update", "client_update"]}' | jq "${1:-.}" >"$BATS_TEST_TMPDIR/tables.json"
}

# Runs the plugin as server.php does.
isp_run() { # [<source of ISPConfig> <address:port> <documents>]
  printf '#!/bin/sh\necho panel >>"%s/runs"\nexec "%s/vhostlimit-panel" "$@"\n' "$BATS_TEST_TMPDIR" "$PANELS" >"$BATS_TEST_TMPDIR/bin/panel"
  chmod +x "$BATS_TEST_TMPDIR/bin/panel"
  try php "$FORMS/ispconfig.php" "$PANELS/ispconfig-vhostlimit_plugin.inc.php" "$BATS_TEST_TMPDIR/bin/panel" \
    "$BATS_TEST_TMPDIR/tables.json" "$@"
}

isp_sites() { for name in anna.example shop.anna.example bert.example panel.example; do site "$name"; done >"$SITES"; }

# The groups that the tables ask for.
isp_groups() {
  accepted
  is "$(grep -cx panel "$BATS_TEST_TMPDIR/runs") $(reloads)" '1 1' "runs and reloads after three events"
  wait_until 10 plan_of_is @client5 Small_Shop
  is "$(sites_of @client5)" 'anna.example shop.anna.example'
  is "$(sites_of @client7) $(plan_of @client7)" 'bert.example none'
  is "$(sites_of @client0)" panel.example
}

@test "ISPConfig: events of one run write the groups of the clients once, with their templates' plans" {
  requires phpcli
  isp_sites
  start_panel
  isp_tables
  isp_run
  is "$status" 0
  isp_groups
}

@test "ISPConfig: events of other tables do nothing, and an error of the database leaves the file as it is" {
  requires phpcli
  isp_sites
  start_panel
  isp_tables '.events = ["ftp_user_insert"]'
  isp_run
  [[ ! -e $FILE ]] || fail "an FTP user has written the file"
  isp_tables
  isp_run
  cp "$FILE" "$BATS_TEST_TMPDIR/before"
  isp_tables '.error = true'
  isp_run
  like "$output" 'log 1: vhostlimit_plugin: the database does not list the sites'
  cmp "$FILE" "$BATS_TEST_TMPDIR/before"
}

# ---- cPanel, DirectAdmin, Plesk: forms from their documentation --------------------------

@test "cPanel, DirectAdmin, Plesk: lines in the form of their documentation are understood" {
  mkdir -p "$CPANEL_ROOT"/{etc,var/cpanel/users} "$DIRECTADMIN/data/users/dora"
  printf '%s: anna==root==%s==anna.example==/home/anna/public_html==192.0.2.1:80======0\n' anna.example main \
    blog.anna.example sub other.example addon parked.example parked >"$CPANEL_ROOT/etc/userdatadomains"
  printf 'DNS=anna.example\nPLAN=root_gold\n' >"$CPANEL_ROOT/var/cpanel/users/anna"
  printf 'username=dora\npackage=gold\n' >"$DIRECTADMIN/data/users/dora/user.conf"
  # shellcheck disable=SC2016  # for the other shell
  printf '#!/bin/sh\n[ "$1 $2 $3 $4" = "db -N -B -e" ] && printf "pia.example\\tpia_sys\\tGold Plan\\n"\n' >"$BATS_TEST_TMPDIR/bin/plesk"
  chmod +x "$BATS_TEST_TMPDIR/bin/plesk"
  printf 'gold root_gold\n' >"$MAP"
  panel -n cpanel
  like "$output" $'<VhostLimitSite @anna>\n    VhostLimitPlan gold\n</VhostLimitSite>\n<VhostLimitSite anna.example>\n    VhostLimitGroup anna\n</VhostLimitSite>\n<VhostLimitSite blog.anna.example>'
  is "$(grep -cE 'other|parked' <<<"$output")" 0 "aliases"
  panel -n directadmin
  like "$output" $'<VhostLimitSite @dora>\n    VhostLimitPlan gold'
  is "$(grep -c 'VhostLimitGroup' <<<"$output")" 0 "groups, which are in the template"
  panel -n plesk
  like "$output" $'<VhostLimitSite @pia_sys>\n    VhostLimitPlan Gold_Plan.*<VhostLimitSite pia.example>\n    VhostLimitGroup pia_sys'
}

@test "cPanel's hook script reports success and failure in cPanel's form" {
  mkdir -p "$CPANEL_ROOT"/{etc,var/cpanel/users}
  echo 'PLAN=gold' >"$CPANEL_ROOT/var/cpanel/users/anna"
  site anna.example >"$SITES"
  start_panel
  try "$PANELS/cpanel-changed.sh" <<<'{"data": {}}'
  like "$status $output" '^0 0 vhostlimit-panel: there is no .*userdatadomains'
  echo 'anna.example: anna==root==main==anna.example==/home/anna==192.0.2.1:80' >"$CPANEL_ROOT/etc/userdatadomains"
  try "$PANELS/cpanel-changed.sh" <<<'{"data": {}}'
  like "$status $output" '^0 1 vhostlimit-panel: .* 1 sites$'
  wait_until 10 plan_of_is @anna gold
}

@test "cPanel's wildcard subdomain is in its user's group" {
  mkdir -p "$CPANEL_ROOT"/{etc,var/cpanel/users}
  echo 'PLAN=gold' >"$CPANEL_ROOT/var/cpanel/users/anna"
  printf '%s: anna==root==sub==anna.example==/home/anna==192.0.2.1:80\n' '*.anna.example' 'blog.anna.example' >"$CPANEL_ROOT/etc/userdatadomains"
  { site blog.anna.example; site _wildcard_.anna.example | sed 's/^ServerName.*/&\nServerAlias *.anna.example/'; } >"$SITES"
  start_panel
  panel --reload cpanel
  is "$status" 0
  accepted
  wait_until 10 sites_of_is @anna '_wildcard_.anna.example blog.anna.example'
}

@test "DirectAdmin's custom template puts a virtual host into its user's group, which has the plan" {
  mkdir -p "$DIRECTADMIN/data/users/dora"
  echo 'package=gold' >"$DIRECTADMIN/data/users/dora/user.conf"
  { site www.dora.example | sed '$d'; sed 's/|USER|/dora/' "$PANELS/directadmin-cust_httpd.CUSTOM.2.pre"; echo '</VirtualHost>'; } >"$SITES"
  start_panel
  panel --reload directadmin
  is "$status" 0
  wait_until 10 plan_of_is @dora gold
  is "$(sites_of @dora)" www.dora.example
}

# ---- the program -------------------------------------------------------------------------

lines() { printf '%s\t%s\t%s\n' "$@"; }  # <site> <customer> <package>...

@test "a plan that is not defined is left out with a warning, and comes when it is defined" {
  site anna.example >"$SITES"
  start_panel
  panel - < <(lines anna.example anna platinum)
  is "$status" 0
  like "$output" 'there is no <VhostLimitPlan platinum>, so customers with this package have no plan\.'
  accepted
  graceful_httpd
  is "$(sites_of @anna) $(plan_of @anna)" 'anna.example none'
  printf '<VhostLimitPlan platinum>\nVhostLimitWeight 900\n</VhostLimitPlan>\n' >>"$SITES"
  panel -r - < <(lines anna.example anna platinum)
  is "$(grep -c 'no <Vhost' <<<"$output")" 0
  wait_until 10 plan_of_is @anna platinum
}

@test "a file that Apache rejects does not replace the old one" {
  site anna.example >"$SITES"
  start_panel
  panel - < <(lines anna.example anna gold)
  cp "$FILE" "$BATS_TEST_TMPDIR/before"
  echo '<VhostLimitSite anna.example>VhostLimitGroup other</VhostLimitSite>' | sed 's/>V/>\nV/; s/r</r\n</' >>"$SITES"
  cmp "$FILE" "$BATS_TEST_TMPDIR/before"
  panel -r - < <(lines anna.example bert gold)
  is "$status" 1
  like "$output" 'Apache rejects the configuration with the new .* the old one stays.*VL0015'
  cmp "$FILE" "$BATS_TEST_TMPDIR/before"
  is "$(reloads)" 0
  is "$(cd /etc/apache2 && echo vhostlimit-panel*)" 'vhostlimit-panel.conf vhostlimit-panel.conf.lock' "files left"
}

@test "a panel that lists no site does not remove all groups" {
  site anna.example >"$SITES"
  start_panel
  panel - </dev/null
  is "$status" 0 "no file yet"
  panel - < <(lines anna.example anna gold)
  cp "$FILE" "$BATS_TEST_TMPDIR/before"
  panel - </dev/null
  like "$status $output" '^1 .*lists no site, so .*vhostlimit-panel.conf stays as it is'
  cmp "$FILE" "$BATS_TEST_TMPDIR/before"
}

@test "a file that Apache does not include, and a server without the module, are errors" {
  start_httpd 'VhostLimit On'
  panel - < <(lines a.test anna '')
  like "$status $output" "^1 .*vhostlimit-panel.conf is not included: add the line IncludeOptional"
  stop_httpd
  configure_httpd -n -x "IncludeOptional \"$FILE\""
  panel - < <(lines a.test anna '')
  like "$status $output" '^1 .*mod_vhostlimit is not loaded'
}

@test "names that are no sites, packages of one customer, and customers of one group are reported" {
  printf '%s\n' '# comment' '' 'go!ld x' 'none  free one' 'gold *' >"$MAP"
  panel -n - < <(lines 'a.test> Include /x <' anna gold 'A.Test' anna big a.test bert big b.test 'x y' big c.test x_y big d.test eve 'free one' '' zoe '')
  like "$output" 'map: "go!ld x" is not PLAN PACKAGE, and is ignored'
  like "$output" '"a\.test> Include /x <" is not the name of a site'
  like "$output" 'customer anna has the packages gold and big; the first one counts'
  like "$output" 'site a\.test belongs to anna and to bert'
  like "$output" 'customers x y and x_y would both be group x_y; the sites of x_y are left out'
  is "$(grep -v '^vhostlimit-panel' <<<"$output" | grep -c Include\ )" 0
  is "$(sed -n '/^<VhostLimitSite/,/^<\//p' <<<"$output" | grep -A 1 '^<VhostLimitSite' | grep -v -e -- | xargs)" \
    '<VhostLimitSite @anna> VhostLimitPlan gold <VhostLimitSite a.test> VhostLimitGroup anna <VhostLimitSite @bert> VhostLimitPlan gold <VhostLimitSite @x_y> VhostLimitPlan gold <VhostLimitSite b.test> VhostLimitGroup x_y <VhostLimitSite d.test> VhostLimitGroup eve'
}

@test "sites with * and sites without a virtual host are named" {
  site anna.example >"$SITES"
  start_panel
  panel - < <(lines anna.example anna gold '*.anna.example' anna gold gone.example anna gold)
  is "$status" 0
  like "$output" 'site \*\.anna\.example is left out: Apache has no ServerName with "\*"'
  like "$output" 'no virtual host has the ServerName of 1 sites, so these have no group and no plan: gone\.example'
  is "$(grep -c '[*]' "$FILE")" 0
}

@test "Apache takes the file for 30 customers of each panel, whatever their names are" {
  configure_httpd 'VhostLimit On' "$PLANS" $'<VhostLimitPlan default>\n</VhostLimitPlan>' -x "IncludeOptional \"$FILE\""
  printf '%s\n' 'none *' 'gold gold' 'Small_Shop Small Shop' 'default default' >"$MAP"
  local panel
  for panel in hestiacp virtualmin cpanel directadmin plesk; do
    is "$(panel_corpus "$panel")" '' "$panel"
  done
}

@test "programs that run at the same time write the file one after the other" {
  site anna.example >"$SITES"
  start_panel
  local i pids=()
  for i in 1 2 3 4 5 6; do
    "$PANELS/vhostlimit-panel" -f "$FILE" -m "$MAP" - < <(lines anna.example "user$i" gold) >"$BATS_TEST_TMPDIR/out$i" 2>&1 3>&- &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || { cat "$BATS_TEST_TMPDIR"/out*; return 1; }; done
  accepted
  is "$(grep -c '^    VhostLimitGroup user[1-6]$' "$FILE") $(grep -c '^<' "$FILE")" '1 8'
}

@test "help, version and wrong words have their statuses" {
  panel --help
  like "$status $output" '^0 Usage:   vhostlimit-panel'
  panel --version
  is "$status $output" "0 vhostlimit-panel (mod_vhostlimit) $(sed -n 's/^AC_INIT(\[mod_vhostlimit\], \[\(.*\)\])$/\1/p' "$TOP/configure.ac")"
  local words
  for words in '' '-x' 'cpanal' '- -' '--add x -' '--file'; do
    # shellcheck disable=SC2086  # words
    panel $words
    is "$status" 2 "status of: $words"
    like "$output" "Try 'vhostlimit-panel --help'"
  done
}

# ---- the panels' own sources ---------------------------------------------------------------

@test "HestiaCP's own add_web_config, with its own template, runs the trigger" {
  requires panel_sources
  begin_hestia
  start_panel -l proxy -l proxy_fcgi -l include 'LogFormat "%b" bytes' 'LogFormat "%h" combined'
  cp "$VL_PANELS/hestiacp/install/deb/templates/web/apache2/php-fpm/default.tpl" "$template"
  hestia_user anna gold
  mkdir -p /etc/apache2/conf.d/domains
  # shellcheck disable=SC2016,SC1091  # for the other shell; HestiaCP's functions
  try bash -c '. "$1/func/domain.sh"
    process_http2_directive() { :; }; format_domain_idn() { :; }; chown() { :; }
    user=anna domain=anna.example HOMEDIR=$2 WEBTPL=$HESTIA/data/templates/web WEB_SYSTEM=apache2 WEB_BACKEND=php-fpm PROXY_SYSTEM=
    local_ip=127.0.0.1 WEB_PORT=$3 alias_string= backend_lsnr=unix:/run/x docroot=$4
    add_web_config apache2 default.tpl' hestia "$VL_PANELS/hestiacp" "$HTTPD_ROOT/home" "$(httpd_port)" "$HTTPD_ROOT/htdocs/a"
  is "$status" 0
  sed -e "s,/var/log/apache2/domains,$HTTPD_ROOT/logs," \
    "$HTTPD_ROOT/home/anna/conf/web/anna.example/apache2.conf" >"$SITES"
  accepted
  graceful_httpd
  is "$(sites_of @anna) $(plan_of @anna)" 'anna.example gold'
}

@test "ISPConfig's own plugin loader and template" {
  requires phpcli panel_sources
  isp_sites
  start_panel
  isp_tables
  isp_run "$VL_PANELS/ispconfig3" "127.0.0.1:$(httpd_port)" "$HTTPD_ROOT/htdocs"
  is "$status" 0
  grep -v '^log ' <<<"$output" >"$SITES"
  like "$(<"$SITES")" 'ServerName shop\.anna\.example'
  isp_groups
}

@test "Virtualmin's own set_domain_envs gives the hook its environment" {
  requires panel_sources
  begin_virtualmin
  start_panel
  # shellcheck disable=SC2016  # perl's own
  try perl -e 'open my $f, "<", $ARGV[0] or die; local $/; my $all = <$f>;
    for my $name ("set_domain_envs", "reset_domain_envs") { $all =~ /^(sub $name\n.*?^\})/ms or die $name; eval $1; die $@ if $@ }
    sub show_domain_name { $_[0] } sub get_domain { undef } sub get_global_template_variables { () }
    set_domain_envs({ dom => "anna.example", user => "anna", id => 11 }, "CREATE_DOMAIN"); exit system($ARGV[1]) >> 8' \
    "$VL_PANELS/virtualmin-gpl/virtual-server-lib-funcs.pl" "$PANELS/virtualmin-changed.sh"
  is "$status" 0
  wait_until 10 plan_of_is @anna Small_Shop
}
