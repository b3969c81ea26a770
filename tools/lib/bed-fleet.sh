# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# A fleet in the test bed: several servers, each in a network namespace and with a quota of
# CPU time of its own, a vhostlimit-fleet beside each, and a store that carries their
# reports.  Part of bed.sh, which has the variables.
#
# Client N is wired to server N only, which has all three sites.  The store is wired to
# each server.  Server 1 is the bed's usual one.  Servers and daemons may use all CPUs of
# this program: their quotas limit them.

fleet_store=vl-store
fleet_store_address=198.18.9.1
fleet_store_port=6379
fleet_most=3                    # servers: each needs a client
fleet_period=20000              # µs of a quota's period

fleet_used()    { ((bed[fleet] > 1)); }
fleet_webs()    { seq "${bed[fleet]}"; }
fleet_name()    { if (($1 == 1)); then echo httpd; else echo "httpd$1"; fi; }   # <server>: as in bed_instances
fleet_number()  { local name=${1#httpd}; echo "${name:-1}"; }                   # <name>: the server
fleet_space()   { if (($1 == 1)); then echo "$bed_server"; else echo "$bed_server$1"; fi; }  # <server>: its namespace
fleet_address() { if (($1 == 1)); then echo "$bed_address"; else echo "198.18.$1.1"; fi; }   # <server>: for its client
fleet_cgroup()  { echo "$bed_cgroup/fleet/$1"; }                                # <name of the server>

# Where a server has its control socket.
fleet_folder() { # <name of the server>
  if fleet_used && [[ $1 != httpd ]]; then bed_file "$1"; else echo "$bed_dir"; fi
}

# --- namespaces -----------------------------------------------------------

fleet_network() { # when the bed's own namespaces are there
  local web
  netns_make "$fleet_store"
  for web in $(fleet_webs); do
    if ((web > 1)); then
      netns_make "$(fleet_space "$web")"
      netns_set "$(fleet_space "$web")" net.core.somaxconn=4096 net.ipv4.tcp_max_syn_backlog=4096
      netns_join "$(fleet_space "$web")" "$(fleet_address "$web")" "vl-client$web" "198.18.$web.2" "eth$web"
      netns_hosts "vl-client$web" "127.0.0.1 localhost
$(fleet_address "$web") site1.test site2.test site3.test"
    fi
    netns_join "$fleet_store" "$fleet_store_address" "$(fleet_space "$web")" "198.18.9.1$web"
  done
}

fleet_spaces() { # all that there may be, for bed_down
  local web
  for ((web = 2; web <= fleet_most; web++)); do fleet_space "$web"; done
  echo "$fleet_store"
}

# --- quotas ---------------------------------------------------------------

# Makes the server's group where CPU time is limited and counted, and sets its quota.  The
# servers have the greatest weight against other processes of the machine: a server has to get
# its whole quota, or the test measures the other processes.
fleet_group_make() { # <name of the server>
  local root type options path
  path=$(fleet_cgroup "$1")
  while read -r _ root type options _; do
    case $type:,$options, in
      cgroup:*,cpu,* | cgroup:*,cpuacct,*) mkdir -p "$root$path" ;;
      cgroup2:*) fleet_group_make_v2 "$root" "$path" || continue ;;
      *) continue ;;
    esac
    fleet_weight "$root$bed_cgroup"
    fleet_quota "$root$path"
  done <<<"$(</proc/self/mounts)"
  [[ -n $(cgroup_dirs "$path") ]] || cannot 'this machine has no cgroup hierarchy with the CPU controller'
}

fleet_group_make_v2() { # <root> <path>: 1 if the hierarchy has no CPU controller
  local dir=$1 part parts
  grep -qsw cpu "$1/cgroup.controllers" || return 1
  mkdir -p "$1$2"
  IFS=/ read -ra parts <<<"${2#/}"
  for part in "${parts[@]}"; do
    echo +cpu >"$dir/cgroup.subtree_control"
    dir+=/$part
  done
}

fleet_weight() { # <folder of the group of all servers>
  if [[ -e $1/cpu.weight ]]; then
    echo 10000 >"$1/cpu.weight"
  elif [[ -e $1/cpu.shares ]]; then
    echo 262144 >"$1/cpu.shares"
  fi
}

fleet_quota() { # <folder of a group>
  local us=${bed[quota]:+$((fleet_period * bed[quota] / 100))}
  if [[ -e $1/cpu.max ]]; then
    echo "${us:-max} $fleet_period" >"$1/cpu.max"
  elif [[ -e $1/cpu.cfs_quota_us ]]; then
    echo "$fleet_period" >"$1/cpu.cfs_period_us"
    echo "${us:--1}" >"$1/cpu.cfs_quota_us"
  fi
}

# --- servers, daemons and the store ---------------------------------------

# Runs a command on a server of the fleet, in its group.  Replaces the shell.
fleet_exec() { # <server> <command>...
  cgroup_enter "$(fleet_cgroup "$(fleet_name "$1")")"
  fleet_look "$@"
}

# The same outside its group, to watch it.
fleet_look() { # <server> <command>...
  bed_exec nsenter --net="/run/netns/$(fleet_space "$1")" taskset -c "$(cpu_list | paste -sd, -)" "${@:2}"
}

fleet_instances() { # as bed_instances
  local web
  for web in $(fleet_webs); do
    echo "$(fleet_name "$web") $(fleet_address "$web"):80 127.0.0.1:8081 ${bed[workers]}"
  done
}

# Copies the programs into the bed, as bed_load does with the module.
fleet_load() { # <folder>
  install -m 755 "$1/vhostlimit-fleet" "$1/vhostlimitctl" "$bed_dir"
}

# Starts the store and all daemons, and waits until each server has its leases and knows
# the others.
fleet_start() { # <lines for the daemons>
  local web
  fleet_store_start
  for web in $(fleet_webs); do fleet_daemon_start "$web" "$1"; done
  for web in $(fleet_webs); do
    poll_until 30 fleet_leases "$web" ||
      die "vhostlimit-fleet of server $web makes no leases within 30 s: $(tail -n 3 "$(bed_file "fleet$web.log")")"
  done
}

fleet_daemon_start() { # <server> <lines>
  local name=fleet$1
  printf '%s\n' "server web$1" "store $fleet_store_address:$fleet_store_port" \
    "control $(fleet_folder "$(fleet_name "$1")")/vhostlimit.sock" "socket $bed_dir/$name.sock" "$2" >"$bed_dir/$name.conf"
  fleet_background "$name" fleet_exec "$1" "$bed_dir/vhostlimit-fleet" -c "$bed_dir/$name.conf"
}

# Starts a program in the background, as no job of this shell: bash would report its end.
fleet_background() { # <name> <command>...
  (
    "${@:2}" </dev/null >>"$bed_dir/$1.log" 2>&1 &
    echo "$!" >"$bed_dir/$1.pid"
  )
}

fleet_leases() { # <server>
  [[ $(fleet_says "$1" '"\(.state) \(.servers | length)"') == "leasing ${bed[fleet]}" ]]
}

fleet_says() { # <server> <jq filter>: of what vhostlimitctl fleet prints
  (bed_unlock_child; "$bed_dir/vhostlimitctl" -s "$bed_dir/fleet$1.sock" --json fleet 2>/dev/null) | jq -r "$2" 2>/dev/null
}

fleet_store_program() { command -v valkey-server || command -v redis-server || cannot 'neither valkey-server nor redis-server is installed'; }

# set-proc-title keeps the command line, by which process_ours finds it.
fleet_store_start() {
  local program
  program=$(fleet_store_program)
  printf '%s\n' "bind $fleet_store_address" "port $fleet_store_port" 'save ""' 'appendonly no' "dir $bed_dir" \
    'protected-mode no' 'set-proc-title no' >"$bed_dir/store.conf"
  fleet_background store bed_exec nsenter --net="/run/netns/$fleet_store" "$program" "$bed_dir/store.conf"
  poll_until 10 fleet_store_answers || die "the store does not answer within 10 s: $(tail -n 3 "$bed_dir/store.log")"
}

fleet_store_kill() {
  local pid
  pid=$(process_ours "$bed_dir/store.pid" "$bed_dir/store.conf") || die 'the store is not running'
  kill -9 "$pid"
  poll_until 5 process_gone "$pid"
}

fleet_ask() { # <command>...
  (bed_unlock_child; exec nsenter --net="/run/netns/$fleet_store" redis-cli -h "$fleet_store_address" -p "$fleet_store_port" "$@") 2>/dev/null
}

fleet_store_answers() { [[ $(fleet_ask ping) == PONG ]]; }
