# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The test bed: one server with three sites or four, and three clients, each in a network namespace of its own,
# joined by veth pairs.  Everything is in bed_dir and in namespaces named vl-*, so that it
# can be found and removed after a crash.  bed_lock lets one tool at a time use it.

. "${BASH_SOURCE[0]%/*}/template.sh"
. "${BASH_SOURCE[0]%/*}/poll.sh"
. "${BASH_SOURCE[0]%/*}/cpu.sh"
. "${BASH_SOURCE[0]%/*}/process.sh"
. "${BASH_SOURCE[0]%/*}/netns.sh"
. "${BASH_SOURCE[0]%/*}/cgroup.sh"
. "${BASH_SOURCE[0]%/*}/httpd.sh"
. "${BASH_SOURCE[0]%/*}/fpm.sh"
. "${BASH_SOURCE[0]%/*}/bed-tls.sh"
. "${BASH_SOURCE[0]%/*}/bed-front.sh"
. "${BASH_SOURCE[0]%/*}/appserver.sh"
. "${BASH_SOURCE[0]%/*}/bed-fleet.sh"
. "${BASH_SOURCE[0]%/*}/bed-server.sh"

# VL_BED names the bed: its folder and its cgroups. Beds with different names run
# side by side if each has network and mount namespaces of its own.
bed_name=${VL_BED:-vhostlimit-testbed}
bed_dir=/run/$bed_name
bed_lock_file=$bed_dir.lock
bed_server=vl-server
bed_address=198.18.0.1          # RFC 2544: never routed
bed_clients=(1 2 3)
bed_peers=()                    # addresses of clients that are other machines
bed_sites=(site1 site2 site3)
bed_ports=(80 81 443 8080 8081 8082)    # sites, a second Apache's, TLS, behind a front; status pages
bed_cgroup=/$bed_name
bed_daemons=(httpd httpd2 httpd3 haproxy nginx varnish fleet1 fleet2 fleet3 store)   # each NAME has NAME.conf and NAME.pid
bed_lock_fd=
bed_module_file=$(in_tree mod_vhostlimit/.libs/mod_vhostlimit.so)      # the module to load
bed_commands=                   # a file that collects command lines, or nothing

# The settings, also stored in bed_dir/settings.  network: `own` for the namespaces, `host`
# for this machine's network, if the clients are other machines.  build: SHA-256 of the
# module.  pools: of PHP-FPM, shared by all sites, of each site under
# one master, or each site's own PHP-FPM.  sites: how many, 2 to 4.  tls: off, on, or both: http too.  front: see
# bed-front.sh.  appserver: see appserver.sh.  rate: nginx's limit of requests a second of a site.  connections: of each database user, 0 for no limit.  instances: number of
# Apaches that share the workers.  fleet: number of
# servers, see bed-fleet.sh; quota: percent of one CPU that each may use, or nothing.
# Only bed_set changes them.
declare -A bed=([mpm]=event [workers]=400 [children]=10 [module]=off [build]='' [pools]=shared [modules]='' [extra]=''
  [sites]=3 [vhosts]=3 [tls]=off [network]=own [front]=none [appserver]=none [rate]=1 [connections]=0 [instances]=1 [fleet]=1 [quota]=''
  [site1]='' [site2]='' [site3]='' [site4]='')

# Sets the address of the sites for clients on other machines, and which addresses get
# pages.
bed_serve() { # <address> [<client's address>]...
  bed_address=$1 bed_peers=("${@:2}")
  [[ $1 != *:* ]] || bed_address="[$1]"
}

# The first of 16384 addresses of a client, for crowd.c.
bed_more_addresses() { printf '198.19.%s.0\n' $((64 * $1)); }  # <client>

bed_file() { printf '%s/%s\n' "$bed_dir" "$1"; }     # <name>

# --- entering -------------------------------------------------------------
# These replace the shell: call them in the background or in parentheses.
# `ip netns exec` would hide /sys/fs/cgroup from the server, nsenter does not.

bed_server_net() { # the namespace's file
  if [[ ${bed[network]} == own ]]; then echo "/run/netns/$bed_server"; else echo /proc/self/ns/net; fi
}

server_exec() { # <command>...
  bed_exec nsenter --net="$(bed_server_net)" taskset -c "$(cpu_server)" "$@"
}

# In the server's network namespace, on the clients' CPUs.
exec_on_client_cpus() { # <command>...
  bed_exec nsenter --net="$(bed_server_net)" taskset -c "$(cpu_clients)" "$@"
}

client_exec() { # <client> <command>...
  bed_exec ip netns exec "vl-client$1" taskset -c "$(cpu_clients)" "${@:2}"
}

bed_exec() { # <command>...
  bed_unlock_child
  bed_note "$@"
  exec "$@"
}

bed_note() { [[ -z $bed_commands ]] || bed_command "$@" >>"$bed_commands"; }    # <command>...

bed_command() { # <word>...: as one would type it
  local line
  printf -v line '%q ' "$@"
  line=${line//\\,/,}            # %q also escapes commas, because of brace expansion
  printf '%s\n' "${line% }"
}

# --- one at a time --------------------------------------------------------

bed_lock() {
  on_exit bed_unlock
  while :; do
    exec {bed_lock_fd}>>"$bed_lock_file"
    flock -w 1 "$bed_lock_fd" || cannot "another tool uses the test bed ($bed_lock_file is locked); try again when it has ended"
    [[ $bed_lock_file -ef /proc/self/fd/$bed_lock_fd ]] && break
    bed_unlock_child            # its last owner removed the file while it was opened
  done
}

# Removes the file unless another process has locked it.
bed_unlock()       { [[ -z $bed_lock_fd ]] || ! flock -n "$bed_lock_fd" || rm -f "$bed_lock_file"; }
bed_unlock_child() { # for processes that may outlive this program
  [[ -z $bed_lock_fd ]] || exec {bed_lock_fd}>&-
  bed_lock_fd=
}

# --- up -------------------------------------------------------------------

bed_up() {
  unset TMPDIR                  # other users, which the servers run as, may not read it
  bed_clean
  mkdir -p "$bed_dir"
  folder_let_run "$bed_dir" 755
  bed_save
  "bed_network_${bed[network]}"
  bed_pages
  bed_httpd_start
  bed_fpm_start
}

# Removes what a crash left behind.  A port that another program uses is an error.
bed_clean() {
  local orphans
  if netns_exists "$bed_server"; then
    mapfile -t orphans < <(bed_orphans "/run/netns/$bed_server")
    process_stop "${orphans[@]}"
    httpd_ports_free "/run/netns/$bed_server" "${bed_ports[@]}"
  fi
  bed_down
}

bed_network_own() {
  local client
  [[ -e /run/netns ]] || : >"$bed_dir/made-run-netns"
  netns_make "$bed_server"
  netns_set "$bed_server" net.core.somaxconn=4096 net.ipv4.tcp_max_syn_backlog=4096
  for client in "${bed_clients[@]}"; do
    netns_make "vl-client$client"
    # A client that runs out of ports would measure the search for a free one.
    netns_set "vl-client$client" net.ipv4.ip_local_port_range='1024 65535' \
      net.ipv4.tcp_max_tw_buckets=1024 net.ipv4.tcp_tw_reuse=1
    netns_join "$bed_server" "$bed_address" "vl-client$client" "198.18.0.1$client"
    netns_route "$bed_server" "vl-client$client" "198.18.0.1$client" "$(bed_more_addresses "$client")/18"
    netns_hosts "vl-client$client" "127.0.0.1 localhost
$bed_address ${bed_sites[*]/%/.test}"
  done
  ! fleet_used || fleet_network
}

# --- down and status ------------------------------------------------------

bed_down() {
  local made='' orphans spaces
  bed_daemons_stop
  appserver_stop
  bed_fpm_stop
  mapfile -t orphans < <(bed_orphans /proc/self/ns/net)
  process_stop "${orphans[@]}"
  mapfile -t spaces < <(fleet_spaces)
  netns_remove "${bed_clients[@]/#/vl-client}" "$bed_server" "${spaces[@]}"
  poll_until 10 cgroup_remove "$bed_cgroup" ||
    say "cgroup $bed_cgroup could not be removed: a process is still in it"
  [[ ! -e $bed_dir/made-run-netns ]] || made=yes
  folder_remove "$bed_dir"
  if [[ -n $made && -z $(ls -A /run/netns 2>/dev/null) ]]; then
    umount /run/netns 2>/dev/null || true
    rmdir /run/netns 2>/dev/null || true
  fi
}

bed_pid() { process_ours "$bed_dir/$1.pid" "$bed_dir/$1.conf"; }       # <daemon>

bed_healthy() { # does what is up run, with or without the current settings?
  local name
  for name in httpd $(bed_fpm_up) $(bed_front_up); do
    bed_pid "$name" >/dev/null || return 1
  done
  bed_answers "${bed_clients[@]}"
}

bed_settings() { # TSV
  local key
  for key in "${!bed[@]}"; do
    printf '%s\t%q\n' "$key" "${bed[$key]}"
  done | sort
}

bed_save() {
  bed_settings >"$bed_dir/settings.tmp"
  mv "$bed_dir/settings.tmp" "$bed_dir/settings"
}

bed_same() { # is the bed up with these settings?
  [[ -r $bed_dir/settings && $(bed_settings) == "$(<"$bed_dir/settings")" ]]
}

bed_report() { # TSV: part, state
  local client pid name
  printf 'part\tstate\n'
  for name in "$bed_server" "${bed_clients[@]/#/vl-client}"; do
    printf '%s\t%s\n' "$name" "$(netns_exists "$name" && echo present || echo absent)"
  done
  for name in httpd $(bed_fpm_up) $(bed_front_up); do
    pid=$(bed_pid "$name") || pid=
    printf '%s\t%s\n' "$name" "${pid:-not running}"
  done
  [[ ! -r $bed_dir/settings ]] || cat "$bed_dir/settings"
}
