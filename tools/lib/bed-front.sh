# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# HAProxy ("sites") or nginx in front of the test bed's Apache, with a queue or limits for each site, or
# Varnish behind it: the sites' virtual hosts with TLS pass each request to it, and it passes the request
# to those without TLS.  All are on the server's CPUs.  Part of bed.sh, which has the variables.

bed_front_start() {
  [[ ${bed[front]} != none ]] || return 0
  [[ ${bed[front]} != varnish ]] || { varnish_start; return; }
  httpd_ports_free "$(bed_server_net)" 80
  [[ ${bed[front]} != nginx ]] || { nginx_start; return; }
  need haproxy
  bed_front_config
  (server_exec haproxy -D -f "$bed_dir/haproxy.conf" -p "$bed_dir/haproxy.pid") </dev/null >"$bed_dir/haproxy.out" 2>&1 ||
    die "HAProxy did not start: $(tail -n 3 "$bed_dir/haproxy.out")"
}

# A backend for each site, limited to its part of Apache's workers.  It ends TLS itself.
bed_front_config() {
  local backend port allowed user site backends='' bind=$bed_address:80
  [[ ${bed[tls]} == off ]] || { bed_tls_files; bind="$bed_address:443 ssl crt $bed_dir/tls/both.pem alpn h2,http/1.1"; }
  backend=$(bed_backend)
  port=$(bed_port)
  allowed=$(bed_allowed haproxy)
  user=$(httpd_user)
  for site in "${bed_sites[@]}"; do
    backends+="backend $site.test"$'\n'"    server apache $backend:$port maxconn $(bed_part)"$'\n\n'
  done
  template_render "$(in_tree conf/testbed/haproxy-sites.conf.in)" "$bed_dir/haproxy.conf" \
    BIND="$bind" ALLOWED="$allowed" USER="$user" MOST="$((($(bed_front_files) - 100) / 2))" BACKENDS="${backends%$'\n\n'}"
}

# File descriptors of a program in front: the hard limit, but no more than 40000.
bed_front_files() {
  local hard
  hard=$(ulimit -Hn)
  if [[ $hard == unlimited ]] || ((hard > 40000)); then echo 40000; else echo "$hard"; fi
}

bed_part() { echo $((bed[workers] / bed[sites])); }     # a site's part of Apache's workers
bed_connections() { echo $((bed[children] / bed[sites])); }    # the same of the processes of PHP-FPM

bed_front_up() { # its name
  local name
  for name in haproxy nginx varnish; do
    [[ ! -e $bed_dir/$name.conf ]] || printf '%s\n' "$name"
  done
}

nginx_start() {
  local backend port allowed user cpus
  need nginx
  backend=$(bed_backend)
  port=$(bed_port)
  allowed=$(bed_allowed nginx)
  user=$(httpd_user)
  cpus=$(cpu_server | tr , '\n' | wc -l)
  template_render "$(in_tree conf/testbed/nginx.conf.in)" "$bed_dir/nginx.conf" \
    DIR="$bed_dir" USER="$user" CPUS="$cpus" FILES="$(bed_front_files)" ADDRESS="$bed_address" BACKEND="$backend" PORT="$port" ALLOWED="$allowed" \
    RATE="${bed[rate]}" BURST="$((10 * bed[rate]))" EACH="$(bed_part)"
  (server_exec nginx -c "$bed_dir/nginx.conf" -e "$bed_dir/nginx.log") </dev/null >"$bed_dir/nginx.out" 2>&1 ||
    die "nginx did not start: $(tail -n 3 "$bed_dir/nginx.out")"
}

varnish_address=127.0.0.1:8080

varnish_start() {
  need varnishd
  template_render "$(in_tree conf/testbed/varnish.vcl.in)" "$bed_dir/varnish.conf" BACKEND="$bed_address"
  (server_exec varnishd -j none -n "$bed_dir/varnish" -P "$bed_dir/varnish.pid" -s malloc,32m \
    -a "$varnish_address" -f "$bed_dir/varnish.conf") </dev/null >"$bed_dir/varnish.out" 2>&1 ||
    die "Varnish did not start: $(tail -n 3 "$bed_dir/varnish.out")"
}

varnish_lines() { # of the virtual hosts with TLS
  printf '%s\n' 'ProxyPreserveHost On' "ProxyPass / http://$varnish_address/" '<Proxy "*">' "$(bed_allowed apache)" '</Proxy>'
}
