# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# HAProxy ("sites") or nginx in front of the test bed's Apache, with a queue or limits for each site, or
# Varnish behind it (varnish.sh); all on the server's CPUs.  Part of bed.sh, which has the variables.

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

bed_front_runs() {
  local name
  for name in $(bed_front_up); do
    process_ours "$bed_dir/$name.pid" "$bed_dir/$name.conf" >/dev/null || return 1
  done
}
