# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The server of the test bed: pages, PHP-FPM and Apache.  Part of bed.sh, which has the
# variables.

bed_pages() { # about 1 KB of text, phpinfo(), and pages that burn CPU time or sleep
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
  done
}

# Files of a PHP-FPM are named after it: fpm if all sites share it, otherwise fpm-site1
# and so on.  A pool's socket has the name of the pool's site, if it is of one.

bed_fpm_now=                    # what runs, if bed_switch may keep it, see bed_fpm_kept

bed_fpm_name()  { if [[ ${bed[pools]} == shared ]]; then echo fpm; else echo "fpm-$1"; fi; }  # <site>: of its socket
bed_fpm_names() { if bed_fpm_one; then echo fpm; else printf 'fpm-%s\n' "${bed_sites[@]}"; fi; }
bed_fpm_one()   { [[ ${bed[pools]} == @(shared|master) ]]; }    # does one PHP-FPM serve all sites?

bed_fpm_start() {
  local name
  for name in $(bed_fpm_names); do
    bed_fpm_start_one "$name"
  done
  bed_fpm_now="${bed[pools]} ${bed[children]}"
}

# PHP-FPMs of sites start after Apache, which makes their groups.  A page that still runs
# would compute beside the next run.
bed_fpm_kept() { bed_fpm_one && [[ $bed_fpm_now == "${bed[pools]} ${bed[children]}" ]] && bed_idle; }

bed_fpm_pools() { # <name>: of its configuration
  local user of sites=("${1#fpm}")
  user=$(httpd_user)
  [[ ${bed[pools]} != master ]] || sites=("${bed_sites[@]/#/-}")
  for of in "${sites[@]}"; do
    bed_fpm_pool "$bed_name$of" "$bed_dir/fpm$of.sock" "$user"
  done
}

bed_fpm_pool() { # <name> <where it listens> <user>
  local template_text
  template_fill "$(in_tree conf/testbed/fpm-pool.conf.in)" POOL="$1" LISTEN="$2" USER="$3" GROUP="$(id -gn "$3")" CHILDREN="${bed[children]}"
  sed '/^;/d' <<<"$template_text"
}

# Without a group of its site PHP-FPM stays in this program's.
bed_fpm_start_one() { # <name>
  local name=$1 binary group pools
  binary=$(fpm_binary) || cannot "php-fpm is not installed"
  group=$(bed_site_cgroup "${name#fpm-}")
  pools=$(bed_fpm_pools "$name")
  template_render "$(in_tree conf/testbed/fpm.conf.in)" "$bed_dir/$name.conf" DIR="$bed_dir" NAME="$name" POOLS="$pools"
  fpm_check "$binary" "$bed_dir/$name.conf"
  (cgroup_enter "$group" && server_exec "$binary" -y "$bed_dir/$name.conf") </dev/null >>"$bed_dir/fpm.out" 2>&1 ||
    die "PHP-FPM did not start: $(tail -n 3 "$bed_dir/fpm.out" "$bed_dir/$name.log")"
  poll_until 30 compgen -G "$bed_dir/$name*.sock" >/dev/null || die "PHP-FPM did not open its socket within 30 s"
}

bed_fpm_stop() {
  local config pid
  for config in "$bed_dir"/fpm*.conf; do
    pid=$(process_ours "${config%.conf}.pid" "$config") || continue
    process_stop "$pid"
    rm -f "${config%.conf}".{pid,conf}
  done
  rm -f "$bed_dir"/fpm*.sock
  bed_fpm_now=
}

bed_fpm_up() { # names of those of the bed that is up, not of the current settings
  local config
  for config in "$bed_dir"/fpm*.conf; do
    config=${config##*/}
    if [[ $config == 'fpm*.conf' ]]; then echo fpm; else echo "${config%.conf}"; fi
  done
}

bed_fpm_pids() { # masters and workers
  local name pid
  for name in $(bed_fpm_up); do
    pid=$(bed_pid "$name") || continue
    printf '%s\n' "$pid"
    tr -s ' ' '\n' <"/proc/$pid/task/$pid/children"
  done
}

# Processes that serve this site only, by a pool of its own or another program.
bed_backend_pids() { # <site>
  local pid
  [[ $1 != site1 ]] || appserver_pids
  [[ $1 != site1 || ${bed[appserver]} == @(none|mariadb|wordpress|postgresql) ]] || return 0
  case ${bed[pools]} in
    own) pid=$(bed_pid "fpm-$1") || return 0 ;;
    master) pid=$(bed_pid fpm) || return 0 ;;
    *) return 0 ;;
  esac
  for pid in $(<"/proc/$pid/task/$pid/children"); do
    [[ ${bed[pools]} == own ]] || process_has_word "$pid" "$bed_name-$1" || continue
    printf '%s\n' "$pid"
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
  poll_until "$seconds" bed_answers 1 ||
    die "Apache does not answer within $seconds s: $(tail -n 3 "$bed_dir/httpd.log")"
}

bed_instances() { # name, listening address, address of the status page, workers
  local half=$((bed[workers] / 2))
  ! fleet_used || { fleet_instances; return; }
  half=$((half - half % 25))     # ThreadsPerChild
  if ((bed[instances] == 2)); then
    echo "httpd $bed_address:80 127.0.0.1:8081 $((half > 25 ? half : 25))"
    echo "httpd2 $bed_address:81 127.0.0.1:8082 $((half > 25 ? half : 25))"
  else
    echo "httpd $(bed_backend):$(bed_port) 127.0.0.1:8081 ${bed[workers]}"
  fi
}

bed_configs() { # the configurations of what is up
  local name
  for name in "${bed_daemons[@]}"; do
    [[ ! -e $bed_dir/$name.conf ]] || cat "$bed_dir/$name.conf"
  done
}

bed_httpd_start_one() { # <name> <listens> <status page> <workers>
  local binary net run=(server_exec)
  binary=$(httpd_binary)
  net=$(bed_server_net)
  if fleet_used; then
    run=(fleet_exec "$(fleet_number "$1")")
    net=/run/netns/$(fleet_space "$(fleet_number "$1")")
    fleet_group_make "$1"
  fi
  httpd_ports_free "$net" "${2##*:}" "${3##*:}"
  bed_httpd_config "$binary" "$@"
  httpd_check "$binary" "$bed_dir/$1.conf"
  ("${run[@]}" "$binary" -f "$bed_dir/$1.conf" -k start) </dev/null >>"$bed_dir/$1.out" 2>&1 ||
    die "Apache did not start: $(tail -n 3 "$bed_dir/$1.out")"
}

bed_httpd_config() { # <binary> <name> <listens> <status page> <workers>
  local user group types modules more also folder threads=25 limited='' per allowed sites
  user=$(httpd_user)
  group=$(id -gn "$user")
  types=$(httpd_mime_types)
  also=$(bed_more_modules)
  # shellcheck disable=SC2086  # words
  modules=$(httpd_load_lines "$1" "mpm_${bed[mpm]}" unixd log_config authn_core \
    authz_core authz_host alias cgi dir mime proxy proxy_fcgi reqtimeout setenvif status $also)
  more=$(bed_more_vhosts "$3" "$2" && bed_clear_vhosts)
  sites=$(bed_site_vhosts "$3")
  folder=$(fleet_folder "$2")
  mkdir -p "$folder"
  allowed=$(bed_allowed apache)
  # Two child processes if there are very many workers.
  ((10#$5 < 1000)) || threads=$(($5 / 2))
  per=$threads
  [[ ${bed[mpm]} != prefork ]] || per=1
  [[ ${bed[module]} == off ]] || limited=$(bed_module_config)
  template_render "$(in_tree conf/testbed/httpd.conf.in)" "$bed_dir/$2.conf" \
    DIR="$bed_dir" NAME="$2" FOLDER="$folder" USER="$user" GROUP="$group" LISTENS="$3" STATUS="$4" TLS="$(bed_tls_config)" \
    MIME_TYPES="$types" WORKERS="$5" THREADS="$threads" \
    SERVER_LIMIT="$((($5 + per - 1) / per))" \
    LOAD_MODULES="$modules" ALLOWED="$allowed" \
    VHOSTLIMIT="$(appserver_lines)"$'\n'"$limited"$'\n'"${bed[extra]}" \
    SITES="$sites" MORE_VHOSTS="$more"
}

# Which addresses get pages.  In namespaces of its own the server has only the clients as
# neighbors; in the machine's own network other addresses get 403.
bed_allowed() { # <apache | haproxy | nginx>: lines of its configuration
  local peers=${bed_peers[*]}
  if [[ ${bed[network]} == own ]]; then
    [[ $1 != apache ]] || echo '    Require all granted'
    return
  fi
  case $1 in
    apache) printf '    Require local\n'; [[ -z $peers ]] || printf '    Require ip %s\n' "$peers" ;;
    haproxy) printf 'http-request deny deny_status 403 unless { src 127.0.0.0/8 ::1 %s %s }\n' "${bed_address//[][]/}" "$peers" ;;
    nginx) printf 'allow %s; ' 127.0.0.0/8 ::1 "${bed_address//[][]/}" "${bed_peers[@]}"; printf 'deny all;\n' ;;
  esac
}

# Where Apache listens.  Behind a front that is the loopback address if other machines
# could reach Apache: they could write any address into a PROXY header.
bed_backend() {
  if [[ ${bed[front]} != @(none|varnish) && ${bed[network]} == host ]]; then echo 127.0.0.1; else printf '%s\n' "$bed_address"; fi
}

# Does Apache end TLS, and not the program in front?
bed_apache_has_tls() { [[ ${bed[tls]} != off && ${bed[front]} != sites ]]; }

# The port of the sites in Apache.  Clients use 443, or 80, which may be a front's.
bed_port() {
  if bed_apache_has_tls; then echo 443; elif [[ ${bed[front]} != none ]]; then echo 8080; else echo 80; fi
}

bed_more_modules() {
  [[ -z ${bed[modules]} ]] || echo "${bed[modules]}"
  ! bed_apache_has_tls || bed_tls_modules
  [[ ${bed[front]} != varnish ]] || echo proxy_http
  appserver_modules
}

bed_site_lines() { # configuration of each site's virtual host
  ! bed_apache_has_tls || echo 'SSLEngine on'
  [[ ${bed[front]} != varnish ]] || varnish_lines
}

# For the next bed_up or bed_switch.
bed_set() { # <key=value>...
  local pair
  for pair; do
    [[ -n ${bed[${pair%%=*}]+known} ]] || die "the test bed has no setting ${pair%%=*}"
    bed[${pair%%=*}]=${pair#*=}
  done
  mapfile -t bed_sites < <(seq -f 'site%.0f' "${bed[sites]}")
}

# The virtual hosts of the sites.
bed_site_vhosts() { # <listens>
  local site lines
  lines=$(bed_site_lines)
  for site in "${bed_sites[@]}"; do
    bed_vhost "$site" "$1" "$lines"$'\n'"$(appserver_vhost "$site")"$'\n'"${bed[$site]}"
  done
}

bed_vhost() { # <site> <listens> <lines>
  template_render "$(in_tree conf/testbed/vhost.conf.in)" "$bed_dir/vhost-$1.conf" \
    DIR="$bed_dir" SITE="$1" LISTENS="$2" FPM="$(bed_fpm_name "$1")" LINES="$3"
  sed '/^#/d' "$bed_dir/vhost-$1.conf"
}

# Writes the virtual hosts beyond those of the sites, and prints an Include of them.
# In a fleet each has a name more, which the load generator `hosts` asks for.
bed_more_vhosts() { # <listens> <name>
  local also=''
  ((bed[vhosts] > bed[sites])) || return 0
  ! fleet_used || also='    ServerAlias h&.site1.test\n'
  seq -f '%.0f' $((bed[sites] + 1)) "${bed[vhosts]}" | sed "s|.*|<VirtualHost $1>\n\
    ServerName other&.test\n$also    DocumentRoot \"$bed_dir/www/site3\"\n</VirtualHost>|" >"$bed_dir/vhosts-$2.conf"
  printf 'Include "%s"\n' "$bed_dir/vhosts-$2.conf"
}

# Copies the module into the bed, which then runs it until it goes down, even if the
# module is built again.
bed_load() { # <module>
  bed_module_file=$bed_dir/mod_vhostlimit.so
  install -m 644 "$1" "$bed_module_file"
}

# The servers of a fleet have one machine, and one site would have one group on all of
# them: they make no groups.
bed_module_config() {
  local cgroup=$bed_cgroup
  ! fleet_used || cgroup=off
  template_render "$(in_tree conf/testbed/vhostlimit.conf.in)" "$bed_dir/vhostlimit.conf" \
    MODULE="$bed_module_file" CGROUP="$cgroup"
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
    pid=$(bed_pid "$name") || continue
    pids+=("$pid")
  done
  process_stop "${pids[@]}"
}

# Prints processes that a killed parent process left behind.  Their command lines have
# the bed's name; for PHP-FPM it is the name of the pool, and nginx' worker processes,
# which have none, are found by their open log.
bed_orphans() { # <file of a namespace>: pids
  local pid
  for pid in $(netns_pids_of "$1"); do
    [[ $(process_program "$pid") =~ /(apache2|httpd|haproxy|nginx|varnishd|php-fpm[0-9.]*|php-cgi[0-9.]*|python[0-9.]*|uwsgi[a-z-]*|perl)$ ]] || continue
    { ! process_has_word "$pid" "${bed_dir##*/}" && ! process_has_file "$pid" "$bed_dir/nginx.log"; } || printf '%s\n' "$pid"
  done
}

bed_not_fpm() { # of pids on stdin
  local pid
  while read -r pid; do
    [[ $(process_program "$pid") == */php-fpm* ]] || printf '%s\n' "$pid"
  done
}

bed_switch() { # <on|off> <extra lines>: the same bed, another configuration
  bed_fpm_kept || bed_fpm_stop
  bed_httpd_stop
  appserver_stop
  bed_set module="$1" extra="$2"
  bed_save
  appserver_start
  bed_httpd_start
  [[ -n $bed_fpm_now ]] || bed_fpm_start
}

bed_answers() { # <client>...
  local client
  for client; do
    [[ ${bed[network]} == host ]] || netns_exists "vl-client$client" || return 1
    (bed_curl "$client" -m 2 -o /dev/null "$(bed_url site1)/") 2>/dev/null || return 1
  done
}

# Replaces the shell.  With clients on other machines this machine sends the request.
bed_curl() { # <client> <argument>...
  case ${bed[network]} in
    host) exec_on_client_cpus curl -fsSk --connect-to "::$bed_address:" "${@:2}" ;;
    *) client_exec "$1" curl -fsSk "${@:2}" ;;
  esac
}

bed_url() { # <site>: less its path
  local scheme=https
  [[ ${bed[tls]} != off ]] || scheme=http
  printf '%s://%s.test\n' "$scheme" "$1"
}

bed_status_page() { # <path>: asked inside the server, where the vhost is Off
  (exec_on_client_cpus curl -fsS -m 5 "http://127.0.0.1:8081$1")
}

bed_idle() { # no connection of the last run is open, in Apache or PHP-FPM
  [[ -z $( (exec_on_client_cpus ss -Htn state connected exclude time-wait "( sport = :80 or sport = :81 or sport = :443 or sport = :$(bed_port) )") ) ]] &&
    ! grep -qF "$bed_dir/fpm" <<<"$( (exec_on_client_cpus ss -Hxn state established) )"
}
