# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The test bed's inside: pages, PHP-FPM and Apache.  Part of bed.sh, where the
# variables are.

bed_pages() { # about 1 KB of text, 1 MB, phpinfo(), and what burns or sleeps
  local site dir line
  for site in "${bed_sites[@]}"; do
    dir=$bed_dir/www/$site
    mkdir -p "$dir"
    install -m 755 "$(in_tree conf/testbed/pages)"/* "$dir"
    printf '<?php phpinfo();\n' >"$dir/info.php"
    {
      printf '<!DOCTYPE html>\n<title>%s</title>\n<h1>%s.test</h1>\n' "$site" "$site"
      for line in {01..16}; do
        printf '<p>Line %s of the static page of %s.test, all alike.\n' "$line" "$site"
      done
    } >"$dir/index.html"
    head -c 1M /dev/zero >"$dir/large.bin"
  done
}

# Of what belongs to a PHP-FPM the files are named after it: fpm for the one that
# all sites share, fpm-site1 and so on for the sites' own.

bed_fpm_name()  { if [[ ${bed[pools]} == own ]]; then echo "fpm-$1"; else echo fpm; fi; }  # <site>
bed_fpm_names() { if [[ ${bed[pools]} == own ]]; then printf 'fpm-%s\n' "${bed_sites[@]}"; else echo fpm; fi; }

bed_fpm_start() {
  local name
  for name in $(bed_fpm_names); do bed_fpm_start_one "$name"; done
}

# After Apache, which makes the group; without a group it is nowhere special.
bed_fpm_start_one() { # <name>
  local name=$1 binary user group
  binary=$(fpm_binary) || cannot "php-fpm is not installed"
  user=$(httpd_user)
  group=$(bed_site_cgroup "${name#fpm-}")
  template_render "$(in_tree conf/testbed/fpm.conf.in)" "$bed_dir/$name.conf" \
    DIR="$bed_dir" NAME="$name" POOL="$bed_name" USER="$user" GROUP="$(id -gn "$user")" CHILDREN="${bed[children]}"
  fpm_check "$binary" "$bed_dir/$name.conf"
  (cgroup_enter "$group" && server_exec "$binary" -y "$bed_dir/$name.conf") </dev/null >>"$bed_dir/fpm.out" 2>&1 ||
    die "PHP-FPM did not start: $(tail -n 3 "$bed_dir/fpm.out" "$bed_dir/$name.log")"
  wait_until 30 test -S "$bed_dir/$name.sock" || die "PHP-FPM did not open its socket within 30 s"
}

bed_fpm_stop() {
  local config pid
  for config in "$bed_dir"/fpm*.conf; do
    pid=$(process_ours "${config%.conf}.pid" "$config") || continue
    process_stop "$pid"
  done
}

bed_fpm_runs() { # those of the bed that is up, whatever is asked for now
  local name
  for name in $(bed_fpm_up); do
    process_ours "$bed_dir/$name.pid" "$bed_dir/$name.conf" >/dev/null || return 1
  done
}

bed_fpm_up() { # names
  local config
  for config in "$bed_dir"/fpm*.conf; do
    config=${config##*/}
    if [[ $config == 'fpm*.conf' ]]; then echo fpm; else echo "${config%.conf}"; fi
  done
}

bed_httpd_child() { # pid of a child that serves, the oldest
  local parent child
  parent=$(process_ours "$bed_dir/httpd.pid" "$bed_dir/httpd.conf") || return 1
  for child in $(<"/proc/$parent/task/$parent/children"); do
    # One thread has mod_cgid's daemon.
    [[ ! -e /proc/$child/task || $(find "/proc/$child/task" -mindepth 1 -maxdepth 1 | wc -l) -lt 5 ]] || { echo "$child"; return; }
  done
  return 1
}

bed_fpm_pids() { # masters and workers
  local name pid
  for name in $(bed_fpm_up); do
    pid=$(process_ours "$bed_dir/$name.pid" "$bed_dir/$name.conf") || continue
    printf '%s\n' "$pid"
    tr -s ' ' '\n' <"/proc/$pid/task/$pid/children"
  done
}

bed_site_cgroup() { printf "%s/%s.test\n" "$bed_cgroup" "$1"; }  # <site>

bed_httpd_start() {
  local instances one seconds=$((30 + bed[vhosts] / 100))
  mapfile -t instances < <(bed_instances)
  for one in "${instances[@]}"; do
    # shellcheck disable=SC2086  # its words
    bed_httpd_start_one $one
  done
  bed_front_start
  wait_until "$seconds" bed_answers 1 ||
    die "Apache does not answer within $seconds s: $(tail -n 3 "$bed_dir/httpd.log")"
}

bed_instances() { # name, where it listens, where its status page is, workers
  local half=$((bed[workers] / 2))
  half=$((half - half % 25))     # ThreadsPerChild
  if ((bed[instances] == 2)); then
    echo "httpd $bed_address:80 127.0.0.1:8081 $((half > 25 ? half : 25))"
    echo "httpd2 $bed_address:81 127.0.0.1:8082 $((half > 25 ? half : 25))"
  else
    echo "httpd $(bed_backend):$(bed_port) 127.0.0.1:8081 ${bed[workers]}"
  fi
}

bed_configs() { # what is up: the texts
  local name
  for name in "${bed_daemons[@]}"; do
    [[ ! -e $bed_dir/$name.conf ]] || cat "$bed_dir/$name.conf"
  done
}

bed_httpd_start_one() { # <name> <listens> <status page> <workers>
  local binary
  binary=$(httpd_binary)
  httpd_ports_free "$(bed_server_net)" "${2##*:}" "${3##*:}"
  bed_httpd_config "$binary" "$@"
  httpd_check "$binary" "$bed_dir/$1.conf"
  (server_exec "$binary" -f "$bed_dir/$1.conf" -k start) </dev/null >>"$bed_dir/$1.out" 2>&1 ||
    die "Apache did not start: $(tail -n 3 "$bed_dir/$1.out")"
}

# One $(...) a command: a signal that comes in one is handled while bash parses
# the next, and is then taken for its unexpected end.
bed_httpd_config() { # <binary> <name> <listens> <status page> <workers>
  local user group types modules more lines apps also threads=25 limited='' per allowed fpm1 fpm2 fpm3
  user=$(httpd_user)
  group=$(id -gn "$user")
  types=$(httpd_mime_types)
  also=$(bed_more_modules)
  # shellcheck disable=SC2086  # words
  modules=$(httpd_load_lines "$1" "mpm_${bed[mpm]}" unixd log_config authn_core \
    authz_core authz_host alias cgi dir mime proxy proxy_fcgi reqtimeout setenvif status $also)
  lines=$(bed_site_lines)$'\n'
  apps=$(app_lines "${bed[apps]}")
  more=$(bed_more_vhosts "$3")
  fpm1=$(bed_fpm_name site1)
  fpm2=$(bed_fpm_name site2)
  fpm3=$(bed_fpm_name site3)
  allowed=$(bed_allowed apache)
  # Two children where there are very many.
  ((10#$5 < 1000)) || threads=$(($5 / 2))
  per=$threads
  [[ ${bed[mpm]} != prefork ]] || per=1
  [[ ${bed[module]} == off ]] || limited=$(bed_module_config)
  template_render "$(in_tree conf/testbed/httpd.conf.in)" "$bed_dir/$2.conf" \
    DIR="$bed_dir" NAME="$2" USER="$user" GROUP="$group" LISTENS="$3" STATUS="$4" TLS="$(bed_tls_config)" \
    MIME_TYPES="$types" WORKERS="$5" THREADS="$threads" \
    FPM1="$fpm1" FPM2="$fpm2" FPM3="$fpm3" \
    SERVER_LIMIT="$((($5 + per - 1) / per))" \
    LOAD_MODULES="$modules" ALLOWED="$allowed" \
    VHOSTLIMIT="$apps"$'\n'"$limited"$'\n'"${bed[extra]}" \
    SITE1="$lines${bed[site1]}" SITE2="$lines${bed[site2]}" SITE3="$lines${bed[site3]}" \
    MORE_VHOSTS="$more"
}

# Who gets pages.  In namespaces of its own the bed has only its clients as
# neighbors; in the machine's own network other addresses get 403.
bed_allowed() { # <apache | haproxy | lighttpd>: lines of its configuration
  local peers=${bed_peers[*]}
  if [[ ${bed[network]} == own ]]; then
    [[ $1 != apache ]] || echo '    Require all granted'
    return
  fi
  case $1 in
    apache) printf '    Require local\n'; [[ -z $peers ]] || printf '    Require ip %s\n' "$peers" ;;
    haproxy) printf 'http-request deny deny_status 403 unless { src 127.0.0.0/8 ::1 %s %s }\n' "${bed_address//[][]/}" "$peers" ;;
    lighttpd)
      peers="127.0.0.1 ::1 ${bed_address//[][]/} $peers"
      peers=${peers% }
      peers=${peers//./\\.}
      # shellcheck disable=SC2016  # lighttpd's own
      printf '$HTTP["remoteip"] !~ "^(%s)$" { url.access-deny = ("") }\n' "${peers// /|}" ;;
  esac
}

# Where Apache listens.  Behind a front that is the loopback address if other machines
# could reach it: they could write any address into a PROXY header.
bed_backend() {
  if [[ ${bed[front]} != none && ${bed[network]} == host ]]; then echo 127.0.0.1; else printf '%s\n' "$bed_address"; fi
}

# Where Apache has the sites: clients ask at 443, or at 80, where a front may be.
bed_port() {
  if [[ ${bed[tls]} == on ]]; then echo 443; elif [[ ${bed[front]} != none ]]; then echo 8080; else echo 80; fi
}

bed_more_modules() {
  [[ -z ${bed[modules]} ]] || echo "${bed[modules]}"
  [[ ${bed[tls]} != on ]] || bed_tls_modules
  [[ ${bed[front]} != proxy ]] || echo remoteip
}

bed_site_lines() { # of each site's vhost
  [[ ${bed[tls]} != on ]] || echo 'SSLEngine on'
  [[ ${bed[front]} != proxy ]] || echo 'RemoteIPProxyProtocol On'
}

bed_set() { bed["$1"]=$2; }     # <key> <value>: for the next bed_switch

# Writes the vhosts beyond the three sites and prints what includes them.
bed_more_vhosts() { # <listens>
  ((bed[vhosts] > 3)) || return 0
  seq -f '%.0f' 4 "${bed[vhosts]}" | sed "s|.*|<VirtualHost $1>\n\
    ServerName other&.test\n    DocumentRoot \"$bed_dir/www/site3\"\n</VirtualHost>|" >"$bed_dir/vhosts.conf"
  printf 'Include "%s"\n' "$bed_dir/vhosts.conf"
}

# From a copy in the bed: the bed then runs the same module until it goes down,
# also when the module is built anew meanwhile.
bed_load() { # <module>
  bed_module_file=$bed_dir/mod_vhostlimit.so
  install -m 644 "$1" "$bed_module_file"
}

bed_module_config() {
  template_render "$(in_tree conf/testbed/vhostlimit.conf.in)" "$bed_dir/vhostlimit.conf" \
    MODULE="$bed_module_file" CGROUP="$bed_cgroup"
  cat "$bed_dir/vhostlimit.conf"
}

bed_httpd_stop() {
  local orphans name
  bed_daemons_stop
  mapfile -t orphans < <(bed_orphans "$(bed_server_net)" | bed_not_fpm)
  process_stop "${orphans[@]}"
  for name in "${bed_daemons[@]}"; do rm -f "$bed_dir/$name".{pid,conf}; done
}

bed_daemons_stop() { # all but PHP-FPM
  local name pid pids=()
  for name in "${bed_daemons[@]}"; do
    pid=$(process_ours "$bed_dir/$name.pid" "$bed_dir/$name.conf") || continue
    pids+=("$pid")
  done
  process_stop "${pids[@]}"
}

# What a killed parent left.  Its command line has the bed's name, PHP's too: the
# pool has it.
bed_orphans() { # <file of a namespace>: pids
  local pid
  for pid in $(netns_pids_of "$1"); do
    [[ $(process_program "$pid") =~ /(apache2|httpd|haproxy|lighttpd|php-fpm[0-9.]*)$ ]] || continue
    ! process_says "$pid" "${bed_dir##*/}" || printf '%s\n' "$pid"
  done
}

bed_not_fpm() { # of pids on stdin
  local pid
  while read -r pid; do
    [[ $(process_program "$pid") == */php-fpm* ]] || printf '%s\n' "$pid"
  done
}

bed_httpd_graceful() {
  (server_exec "$(httpd_binary)" -f "$bed_dir/httpd.conf" -k graceful)
}

bed_switch() { # <on|off> <extra lines>: the same bed, another configuration
  bed_httpd_stop
  bed[module]=$1
  bed[extra]=$2
  bed_save
  # Apache makes the groups of PHP-FPMs that have some, so those start after it.
  [[ ${bed[pools]} == shared ]] || bed_fpm_stop
  bed_httpd_start
  [[ ${bed[pools]} == shared ]] || bed_fpm_start
}

bed_answers() { # <client>...
  local client
  for client; do
    [[ ${bed[network]} == host ]] || netns_exists "vl-client$client" || return 1
    (bed_curl "$client" -m 2 -o /dev/null "$(bed_url site1)/") 2>/dev/null || return 1
  done
}

# Replaces the shell.  Clients that are other machines are not asked to.
bed_curl() { # <client> <argument>...
  case ${bed[network]} in
    host) exec_on_client_cpus curl -fsSk --connect-to "::$bed_address:" "${@:2}" ;;
    *) client_exec "$1" curl -fsSk "${@:2}" ;;
  esac
}

bed_url() { # <site>: less its path
  if [[ ${bed[tls]} == on ]]; then printf 'https://%s.test\n' "$1"; else printf 'http://%s.test\n' "$1"; fi
}

bed_status_page() { # <path>: asked inside the server, where the vhost is Off
  (exec_on_client_cpus curl -fsS -m 5 "http://127.0.0.1:8081$1")
}

bed_idle() { # nothing of the last flood is left in the server
  [[ -z $( (exec_on_client_cpus ss -Htn state connected exclude time-wait "( sport = :80 or sport = :81 or sport = :$(bed_port) )") ) ]] &&
    ! grep -qF "$bed_dir/fpm" <<<"$( (exec_on_client_cpus ss -Hxn state established) )"
}
