# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# HAProxy or nginx in front of the test bed's Apache, or Varnish behind it.  "keepalive" uses plain HTTP on connections
# that requests of all sites share, "proxy" sends each client's address by the PROXY
# protocol, version 2; both run on the clients' CPUs.  "sites" runs on the server's CPUs
# and has a queue for each site.  "nginx" runs there too and has limits for each site.  "varnish" runs there too, see varnish.sh.
# Part of bed.sh, which has the variables.

bed_front_known() { [[ $1 == @(none|keepalive|proxy) ]]; }      # valid for setup.sh

bed_front_start() {
  local start=exec_on_client_cpus
  [[ ${bed[front]} != none ]] || return 0
  [[ ${bed[front]} != varnish ]] || { varnish_start; return; }
  httpd_ports_free "$(bed_server_net)" 80
  [[ ${bed[front]} != nginx ]] || { nginx_start; return; }
  need haproxy
  case ${bed[front]} in
    keepalive) bed_front_config always '' ;;
    proxy) bed_front_config safe send-proxy-v2 ;;
    sites) bed_front_config_sites; start=server_exec ;;
  esac
  ("$start" haproxy -D -f "$bed_dir/haproxy.conf" -p "$bed_dir/haproxy.pid") </dev/null >"$bed_dir/haproxy.out" 2>&1 ||
    die "HAProxy did not start: $(tail -n 3 "$bed_dir/haproxy.out")"
}

bed_front_config() { # <http-reuse> <how the server is spoken to>
  local backend port allowed
  backend=$(bed_backend)
  port=$(bed_port)
  allowed=$(bed_allowed haproxy)
  template_render "$(in_tree conf/testbed/haproxy-front.conf.in)" "$bed_dir/haproxy.conf" \
    ADDRESS="$bed_address" BACKEND="$backend" PORT="$port" ALLOWED="$allowed" REUSE="$1" HOW="$2" MOST="$((($(ulimit -Sn) - 100) / 2))"
}

# A backend for each site, limited to its part of Apache's workers.  It ends TLS itself.
bed_front_config_sites() {
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

bed_front_up() { # its name
  local name
  for name in haproxy nginx varnish; do
    [[ ! -e $bed_dir/$name.conf ]] || printf '%s\n' "$name"
  done
}

bed_front_runs() {
  local name
  for name in $(bed_front_up); do
    process_ours "$bed_dir/$name.pid" "$bed_dir/$name.conf" >/dev/null || return 1
  done
}
