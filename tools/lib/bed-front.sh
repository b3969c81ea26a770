# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# HAProxy before the test bed's Apache, on the clients' CPU: "keepalive" speaks
# plain HTTP over connections that requests of all sites share, "proxy" tells
# Apache each client's address by the PROXY protocol, version 2.  Part of bed.sh,
# where the variables are.

bed_front_known() { [[ $1 == @(none|keepalive|proxy) ]]; }

bed_front_start() {
  local reuse=always how=''
  [[ ${bed[front]} != none ]] || return 0
  command -v haproxy >/dev/null || cannot "haproxy is needed and not installed"
  [[ ${bed[front]} != proxy ]] || { reuse=safe; how=send-proxy-v2; }
  template_render "$(in_tree conf/testbed/haproxy.conf.in)" "$bed_dir/haproxy.conf" \
    ADDRESS="$bed_address" PORT="$(bed_port)" REUSE="$reuse" HOW="$how" MOST="$((($(ulimit -Sn) - 100) / 2))"
  (aside_exec haproxy -D -f "$bed_dir/haproxy.conf" -p "$bed_dir/haproxy.pid") </dev/null >"$bed_dir/haproxy.out" 2>&1 ||
    die "HAProxy did not start: $(tail -n 3 "$bed_dir/haproxy.out")"
}

bed_front_stop() {
  local pid
  pid=$(process_ours "$bed_dir/haproxy.pid" "$bed_dir/haproxy.conf") || return 0
  process_stop "$pid"
  rm -f "$bed_dir/haproxy.pid" "$bed_dir/haproxy.conf"
}

bed_front_up() { if [[ -e $bed_dir/haproxy.conf ]]; then echo haproxy; fi; }

bed_front_runs() {
  [[ ! -e $bed_dir/haproxy.conf ]] || process_ours "$bed_dir/haproxy.pid" "$bed_dir/haproxy.conf" >/dev/null
}
