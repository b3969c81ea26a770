# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Which CPUs serve and which ones make the load: the first one we may use
# belongs to the server, the others to the clients.  With one CPU both share it.
# Where the clients are other machines the server has them all.

cpu_clients_here=yes

cpu_clients_elsewhere() { cpu_clients_here=no; }

cpu_list() { # one number a line
  local part
  for part in $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr , ' '); do
    seq "${part%-*}" "${part#*-}"
  done
}

cpu_server() { # comma separated
  if [[ $cpu_clients_here == yes ]]; then cpu_list | sed -n 1p; else cpu_list | paste -sd, -; fi
}

cpu_clients() { # comma separated
  local others
  [[ $cpu_clients_here == yes ]] || { cpu_server; return; }
  others=$(cpu_list | sed 1d | paste -sd, -)
  printf '%s\n' "${others:-$(cpu_server)}"
}

# What sar calls the CPUs of the server, and of the clients.  Where the clients are
# other machines, all of this machine's are the server's.
cpu_of_record() { # <server | clients>
  if [[ $cpu_clients_here == yes ]]; then "cpu_$1"; else echo all; fi
}
