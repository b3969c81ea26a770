# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# HAProxy in front of the test bed's Apache.  "keepalive" uses plain HTTP on connections
# that requests of all sites share, "proxy" sends each client's address by the PROXY
# protocol, version 2; both run on the clients' CPUs.  "sites" runs on the server's CPUs
# and has a queue for each site.  Part of bed.sh, which has the variables.

bed_front_known() { [[ $1 == @(none|keepalive|proxy) ]]; }      # valid for setup.sh

bed_front_start() {
  local start=exec_on_client_cpus
  [[ ${bed[front]} != none ]] || return 0
  command -v haproxy >/dev/null || cannot "haproxy is not installed; install it and try again"
  httpd_ports_free "$(bed_server_net)" 80
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

# A backend for each site, limited to its part of Apache's workers.
bed_front_config_sites() {
  local backend port allowed user
  backend=$(bed_backend)
  port=$(bed_port)
  allowed=$(bed_allowed haproxy)
  user=$(httpd_user)
  template_render "$(in_tree conf/testbed/haproxy-sites.conf.in)" "$bed_dir/haproxy.conf" \
    ADDRESS="$bed_address" BACKEND="$backend" PORT="$port" ALLOWED="$allowed" USER="$user" EACH="$((bed[workers] / ${#bed_sites[@]}))"
}

bed_front_up() { if [[ -e $bed_dir/haproxy.conf ]]; then echo haproxy; fi; }

bed_front_runs() {
  [[ ! -e $bed_dir/haproxy.conf ]] || process_ours "$bed_dir/haproxy.pid" "$bed_dir/haproxy.conf" >/dev/null
}
