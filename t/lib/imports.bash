# shellcheck shell=bash disable=SC2016  # variables of macros and templates
# SPDX-License-Identifier: Apache-2.0
# Files as administrators have them, for vhostlimitctl import: 30 of each kind. A number selects
# names, limits, spellings and order.

pick() { local n=$1; shift; printf '%s' "${@:n % $# + 1:1}"; }   # <number> <word>...

qos_limit() { # <number>: a line of mod_qos
  pick "$1" "QS_LocRequestLimit / $((10 + $1))" "QS_LocRequestLimitDefault $((5 * $1))" 'QS_LocRequestLimit / 0' \
    "qs_locrequestlimit  \"/\"  $((3 * $1))" 'QS_LocRequestLimitMatch "^/(wp-admin|api)/.*\.php$" 8' 'QS_LocRequestPerSecLimit /search 20' \
    'QS_SrvMaxConn 800' 'QS_SrvMaxConnClose 80%' 'QS_ErrorResponseCode 429' 'QS_ErrorResponseCode 500' 'QS_DenyPath +a deny "\\(" ' \
    'QS_EventRequestLimit bot=5' 'QS_SetEnvIfQuery "q=(.+)" Q=$1' 'QS_LocKBytesPerSecLimit /dl 1024' 'QS_KeepAliveTimeout 2'
}

qos_vhost() { # <number> <name> <address>
  printf '<VirtualHost %s>\n' "$3"
  pick "$1" "    ServerName $2" "ServerName https://$2:443" $'\tservername "'"$2"'"' '    # no name' "  ServerName ${2^^}:80" '  ServerName ${SITE}.example'
  printf '\n    ServerAlias www.%s *.%s\n    %s\n' "$2" "$2" "$(qos_limit "$1")"
  pick "$1" '    Include conf/options-ssl-apache.conf' '    <IfModule mod_qos.c>' '    <Location /x>' ''
  printf '\n    %s\n    %s\n' "$(qos_limit $(($1 * 7 + 1)))" "$(qos_limit $(($1 * 3 + 2)))"
  pick "$1" '' '    </IfModule>' '    </Location>' ''
  printf '\n</VirtualHost>\n'
}

qos_file() { # <number>
  pick "$1" $'# /etc/apache2/conf\nLoadModule qos_module modules/mod_qos.so\n' $'QS_ClientEntries 100000\nQS_SrvMaxConnPerIP 50\n' \
    $'QS_ErrorPage /error-docs/qs_error.html\nQS_LogOnly on\n' $'IncludeOptional sites-enabled/*.conf\nUse Site a b\n' $'QS_SrvMaxConn \\\n  900\nQS_ErrorResponseCode 503\n'
  echo
  qos_vhost "$1" "site$1.example" '*:80'
  qos_vhost $(($1 + 1)) "site$1.example" '*:443'
  qos_vhost $(($1 + 2)) "blog-$1.example" "$(pick "$1" '192.0.2.1:80' '[2001:db8::1]:80' '*:80' '_default_:443')"
  qos_vhost $(($1 + 3)) "Site$1.Example" '*:8080'
}

lve_limits() { # <number>
  pick "$1" '<cpu limit="100%"/>' '<cpu limit="25"/><ncpu limit="2"/>' '<cpu limit="2000mhz"/>' '<cpu limit="0%"/>' '<cpu limit="1600%"/>'
  pick $(($1 + 1)) '<io limit="1024"/>' '<io limit="4294967"/>' '<iops limit="1024"/>' '<io limit="0"/>' ''
  pick $(($1 + 2)) '<other maxentryprocs="20"/>' '<other maxentryprocs="0"/>' '<other maxentryprocs="1000000"/>' '<other maxentryprocs="4294967295"/>'
  pick $(($1 + 3)) '<pmem limit="262144"/>' '<pmem limit="0"/><mem limit="0"/>' '<pmem limit="1"/>' '<mem limit="524288"/>' '<pmem limit="4294967295"/>'
  pick "$1" '<nproc limit="100"/>' '<nproc limit="4294967295"/>' '<nproc limit="0"/>' ''
}

lve_file() { # <number>
  local package=("Plan $1" "plan_$1" "Plan_$1" "Gold &amp; more" 'VIP+' 'VIP_' 'lve-default' "$(printf 'x%.0s' {1..70})$1" 'größe')
  printf '<?xml version="1.0" ?>\n<lveconfig>\n<defaults>%s</defaults>\n' "$(lve_limits "$1")"
  local i
  for i in 0 1 2 3 4; do
    printf '<package id="%s">%s</package>\n' "$(pick $(($1 + i)) "${package[@]}")" "$(lve_limits $(($1 + i)))"
  done
  for i in 0 1 2; do
    printf '<lve id="%s">%s</lve>\n' "$(pick $(($1 * 2 + i)) 500 0 33 1001 4294967295)" "$(lve_limits $(($1 * 3 + i)))"
  done
  echo '</lveconfig>'
}

# Imports the 30 files of a kind. Prints those that fail, and the answer of httpd for them.
import_corpus() { # <lve|mod_qos>
  local n kind=${1#mod_} in=$BATS_TEST_TMPDIR/in out=$BATS_TEST_TMPDIR/out said
  configure_httpd -x "Include \"$out\""
  for ((n = 0; n < 30; n++)); do
    "${kind}_file" "$n" >"$in"
    if ! said=$("$CTL" import "$1" "$in" 2>&1 >"$out") || ! said=$("$(httpd_program)" -t -f "$HTTPD_ROOT/httpd.conf" 2>&1); then
      printf '%s %s: %s\n' "$1" "$n" "$said"
    fi
  done
}

# ---- data of 30 customers in a panel ---------------------------------------------------

# The names of a customer's sites, of its package and of itself.
panel_site()     { pick "$1" "shop$1.example" "Shop-$1.EXAMPLE" "xn--bcher-kva$1.example" "$1.example" "a_b$1.example" "*.wild$1.example" "x$1.example."; }
panel_package()  { pick "$1" gold 'Small Shop' default 'Größe M' '<b>"x"</b>' '$(id) `id`' "$(printf 'p%.0s' {1..80})" '../../etc' ''; }
panel_customer() { pick "$1" "user$1" "User_$1" "u.$1" "user-$1@example.com" "$(printf 'u%.0s' {1..70})$1" "müller$1" "user $1"; }

# Writes the data of a customer into the panel's folder.
panel_data() { # <panel> <number>
  local root=$BATS_TEST_TMPDIR/$1 site package customer
  site=$(panel_site "$2") package=$(panel_package "$2") customer=$(panel_customer "$2")
  case $1 in
    hestiacp)
      mkdir -p "$root/data/users/$customer"
      printf "NAME='%s'\nPACKAGE='%s'\n" "$customer" "$package" >"$root/data/users/$customer/user.conf"
      printf "DOMAIN='%s' IP='192.0.2.1' ALIAS='www.%s'\nDOMAIN='blog.%s' IP=''\n" "$site" "$site" "$site" >"$root/data/users/$customer/web.conf"
      ;;
    virtualmin)
      mkdir -p "$root"/virtual-server/{domains,plans}
      printf 'id=%s\nname=%s\n' "$2" "$package" >"$root/virtual-server/plans/$2"
      printf 'id=%s\ndom=%s\nuser=%s\nplan=%s\nweb=1\n' "1$2" "$site" "$customer" "$2" >"$root/virtual-server/domains/1$2"
      printf 'id=%s\ndom=sub.%s\nparent=1%s\nweb=1\n' "2$2" "$site" "$2" >"$root/virtual-server/domains/2$2"
      ;;
    cpanel)
      mkdir -p "$root"/{etc,var/cpanel/users}
      printf '%s: %s==root==main==%s==/home/x==192.0.2.1:80======0\n*.%s: %s==root==sub==x==/home/x==192.0.2.1:80\n' \
        "$site" "$customer" "$site" "$site" "$customer" >>"$root/etc/userdatadomains"
      printf 'DNS=%s\nPLAN=%s\n' "$site" "$package" >"$root/var/cpanel/users/$customer"
      ;;
    directadmin)
      mkdir -p "$root/data/users/$customer"
      printf 'username=%s\npackage=%s\n' "$customer" "$package" >"$root/data/users/$customer/user.conf"
      ;;
    plesk) printf '%s\t%s\t%s\n' "$site" "$customer" "$package" >>"$root" ;;
  esac
}

# Writes the file of vhostlimit-panel for 30 customers. Prints what Apache says against it.
panel_corpus() { # <panel>
  local n said
  for ((n = 0; n < 30; n++)); do panel_data "$1" "$n"; done
  printf '#!/bin/sh\ncat "%s"\n' "$BATS_TEST_TMPDIR/plesk" >"$BATS_TEST_TMPDIR/bin/plesk"
  chmod +x "$BATS_TEST_TMPDIR/bin/plesk"
  said=$(HESTIA=$BATS_TEST_TMPDIR/hestiacp WEBMIN_CONFIG=$BATS_TEST_TMPDIR/virtualmin DIRECTADMIN=$BATS_TEST_TMPDIR/directadmin \
    CPANEL_ROOT=$BATS_TEST_TMPDIR/cpanel "$PANELS/vhostlimit-panel" -f "$FILE" "$1" 2>&1) || printf '%s: %s\n' "$1" "$said"
  said=$("$(httpd_program)" -t -f "$HTTPD_ROOT/httpd.conf" 2>&1) || printf '%s: %s\n' "$1" "$said"
  (($(grep -c '^<VhostLimitSite' "$FILE") >= 8)) || printf '%s: few sections in %s\n' "$1" "$(<"$FILE")"
}
