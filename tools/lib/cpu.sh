# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Which CPUs serve and which ones make the load: the first one we may use
# belongs to the server, the others to the clients.  With one CPU both share it.

cpu_list() { # one number a line
  local part
  for part in $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr , ' '); do
    seq "${part%-*}" "${part#*-}"
  done
}

cpu_server()  { cpu_list | sed -n 1p; }

cpu_clients() { # comma separated
  local others
  others=$(cpu_list | sed 1d | paste -sd, -)
  printf '%s\n' "${others:-$(cpu_server)}"
}

cpu_separate() { [[ $(cpu_clients) != "$(cpu_server)" ]]; }
