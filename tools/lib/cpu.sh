# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Which CPUs run the server and which ones the load generators.  The first one that this
# program may use belongs to the server, or as many as bench.sh --server-cpus names, the
# others to the clients.  With one CPU both share it.  Where the clients are other
# machines the server has all CPUs.

cpu_clients_here=yes
cpu_server_number=1

cpu_clients_elsewhere() { cpu_clients_here=no; }
cpu_give_server() { cpu_server_number=$1; }     # <number of CPUs>

cpu_list() { # one number a line
  local part
  for part in $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr , ' '); do
    seq "${part%-*}" "${part#*-}"
  done
}

cpu_server() { # comma separated
  if [[ $cpu_clients_here == yes ]]; then cpu_list | sed -n "1,${cpu_server_number}p"; else cpu_list; fi | paste -sd, -
}

cpu_clients() { # comma separated
  local others=''
  [[ $cpu_clients_here != yes ]] || others=$(cpu_list | sed "1,${cpu_server_number}d" | paste -sd, -)
  if [[ -n $others ]]; then printf '%s\n' "$others"; else cpu_server; fi
}

# What sar calls the CPUs of the server, and of the clients.  Where the clients are
# other machines, all of this machine's are the server's.
cpu_of_record() { # <server | clients>
  if [[ $cpu_clients_here == yes ]]; then "cpu_$1"; else echo all; fi
}
