# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Network namespaces: create, join, inspect, remove.  netns_remove ends every process in
# a namespace, so it is for namespaces created here only.

netns_etc=/etc/netns
netns_etc_mark=$netns_etc/.made-by-vhostlimit

netns_exists() { [[ -e /run/netns/$1 ]]; }

netns_make() { # <name>
  ip netns add "$1"
  ip -n "$1" link set lo up
}

netns_set() { # <name> <sysctl=value>...
  nsenter --net="/run/netns/$1" sysctl -qw "${@:2}"
}

netns_join() { # <server> <its address> <client> <its address> [device of the client]: a wire, point to point
  local device=${5-eth0}
  ip -n "$1" link add "$3" type veth peer name "$device" netns "$3"
  ip -n "$1" address add "$2" peer "$4/32" dev "$3"
  ip -n "$3" address add "$4" peer "$2/32" dev "$device"
  ip -n "$1" link set "$3" up
  ip -n "$3" link set "$device" up
}

netns_route() { # <server> <client> <its address> <net>: all of the net are addresses of the client
  ip -n "$2" route add local "$4" dev lo
  ip -n "$1" route add "$4" via "$3"
}

netns_hosts() { # <name> <text>: its own hosts file; `ip netns exec` mounts it
  if [[ ! -d $netns_etc ]]; then
    mkdir "$netns_etc"
    : >"$netns_etc_mark"
  fi
  mkdir -p "$netns_etc/$1"
  printf '%s\n' "$2" >"$netns_etc/$1/hosts"
}

netns_pids_of() { # <its file>
  local process
  for process in /proc/[0-9]*; do
    [[ ! $process/ns/net -ef $1 ]] || printf '%s\n' "${process##*/}"
  done
}

netns_listener() { # <its file> <port>: "pid program" of who listens there
  # -p is slow: ss then reads the open files of all processes
  [[ -n $(nsenter --net="$1" ss -Hltn "sport = :$2") ]] || return 0
  nsenter --net="$1" ss -Hltnp "sport = :$2" |
    sed -n 's/.*(("\([^"]*\)",pid=\([0-9]*\),.*/\2 \1/p' | sed -n 1p
}

netns_remove() { # <name>...: with the processes in it and its hosts file
  local name pids
  for name; do
    mapfile -t pids < <(! netns_exists "$name" || ip netns pids "$name" 2>/dev/null)
    process_stop "${pids[@]}"
    ! netns_exists "$name" || ip netns del "$name" 2>/dev/null || rm -f "/run/netns/$name"
    rm -rf "${netns_etc:?}/$name"
  done
  if [[ -e $netns_etc_mark ]]; then
    rm -f "$netns_etc_mark"
    rmdir "$netns_etc" 2>/dev/null || : >"$netns_etc_mark"
  fi
}
