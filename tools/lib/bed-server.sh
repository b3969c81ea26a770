# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The test bed's inside: pages, PHP-FPM and Apache.  Part of bed.sh, where the
# variables are.

bed_pages() { # about 1 KB of text, phpinfo(), and what burns or sleeps
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
  local name=$1 binary user group=$bed_cgroup/${1#fpm-}.test:80
  binary=$(fpm_binary) || cannot "php-fpm is not installed"
  user=$(httpd_user)
  template_render "$(in_tree conf/testbed/fpm.conf.in)" "$bed_dir/$name.conf" \
    DIR="$bed_dir" NAME="$name" USER="$user" GROUP="$(id -gn "$user")" CHILDREN="${bed[children]}"
  fpm_check "$binary" "$bed_dir/$name.conf"
  (cgroup_enter "$group" && server_exec "$binary" -y "$bed_dir/$name.conf") </dev/null >>"$bed_dir/fpm.out" 2>&1 ||
    die "PHP-FPM did not start: $(tail -n 3 "$bed_dir/fpm.out" "$bed_dir/$name.log")"
  wait_until 10 test -S "$bed_dir/$name.sock" || die "PHP-FPM did not open its socket within 10 s"
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

bed_httpd_start() {
  local binary
  binary=$(httpd_binary)
  httpd_ports_free "$bed_server" "${bed_ports[@]}"
  bed_httpd_config "$binary"
  httpd_check "$binary" "$bed_dir/httpd.conf"
  (server_exec "$binary" -f "$bed_dir/httpd.conf" -k start) </dev/null >>"$bed_dir/httpd.out" 2>&1 ||
    die "Apache did not start: $(tail -n 3 "$bed_dir/httpd.out")"
  wait_until 10 bed_answers 1 ||
    die "Apache does not answer within 10 s: $(tail -n 3 "$bed_dir/httpd.log")"
}

# One $(...) a command: a signal that comes in one is handled while bash parses
# the next, and is then taken for its unexpected end.
bed_httpd_config() { # <binary>
  local user group types modules http2=() more threads=25 limited='' per fpm1 fpm2 fpm3
  user=$(httpd_user)
  group=$(id -gn "$user")
  types=$(httpd_mime_types)
  [[ ${bed[http2]} == off ]] || http2=(http2)
  modules=$(httpd_load_lines "$1" "mpm_${bed[mpm]}" unixd log_config authn_core \
    authz_core authz_host alias cgi dir mime proxy proxy_fcgi reqtimeout setenvif status "${http2[@]}")
  more=$(bed_more_vhosts)
  fpm1=$(bed_fpm_name site1)
  fpm2=$(bed_fpm_name site2)
  fpm3=$(bed_fpm_name site3)
  per=$threads
  [[ ${bed[mpm]} != prefork ]] || per=1
  [[ ${bed[module]} == off ]] || limited=$(bed_module_config)
  template_render "$(in_tree conf/testbed/httpd.conf.in)" "$bed_dir/httpd.conf" \
    DIR="$bed_dir" USER="$user" GROUP="$group" ADDRESS="$bed_address" \
    MIME_TYPES="$types" WORKERS="${bed[workers]}" THREADS="$threads" \
    FPM1="$fpm1" FPM2="$fpm2" FPM3="$fpm3" \
    SERVER_LIMIT="$(((bed[workers] + per - 1) / per))" \
    LOAD_MODULES="$modules" \
    VHOSTLIMIT="$(bed_http2_lines)"$'\n'"$(app_lines "${bed[apps]}")"$'\n'"$limited"$'\n'"${bed[extra]}" SITE1="${bed[site1]}" SITE2="${bed[site2]}" SITE3="${bed[site3]}" \
    MORE_VHOSTS="$more"
}

bed_http2_lines() { [[ ${bed[http2]} == off ]] || echo 'Protocols h2c http/1.1'; }

bed_set() { bed["$1"]=$2; }     # <key> <value>: for the next bed_switch

# Writes the vhosts beyond the three sites and prints what includes them.
bed_more_vhosts() {
  ((bed[vhosts] > 3)) || return 0
  seq -f '%.0f' 4 "${bed[vhosts]}" | sed "s|.*|<VirtualHost $bed_address:80>\n\
    ServerName other&.test\n    DocumentRoot \"$bed_dir/www/site3\"\n</VirtualHost>|" >"$bed_dir/vhosts.conf"
  printf 'Include "%s"\n' "$bed_dir/vhosts.conf"
}

bed_module_config() {
  local module
  module=$(in_tree mod_vhostlimit/.libs/mod_vhostlimit.so)
  [[ -e $module ]] || cannot "$module is not built (./autogen.sh && ./configure && make)"
  template_render "$(in_tree conf/testbed/vhostlimit.conf.in)" "$bed_dir/vhostlimit.conf" \
    MODULE="$module" CGROUP="$bed_cgroup"
  cat "$bed_dir/vhostlimit.conf"
}

bed_httpd_stop() {
  local pid orphans binary
  lighttpd_stop
  binary=$(httpd_binary)
  pid=$(process_ours "$bed_dir/httpd.pid" "$bed_dir/httpd.conf") || pid=
  process_stop ${pid:+"$pid"}
  mapfile -t orphans < <(httpd_orphans "$bed_server" "$binary")
  process_stop "${orphans[@]}"
  rm -f "$bed_dir/httpd.pid"
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
    netns_exists "vl-client$client" || return 1
    (client_exec "$client" curl -fsS -m 2 -o /dev/null http://site1.test/) 2>/dev/null || return 1
  done
}

bed_status_page() { # <path>: asked inside the server, where the vhost is Off
  (aside_exec curl -fsS -m 5 "http://127.0.0.1:8081$1")
}

bed_idle() { # nothing of the last flood is left in the server
  [[ -z $( (aside_exec ss -Htn state connected exclude time-wait 'sport = :80') ) ]] &&
    ! grep -qF "$bed_dir/fpm" <<<"$( (aside_exec ss -Hxn state established) )"
}
