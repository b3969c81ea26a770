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

# The file is read at once: after each line the shell seeks back to the end of the line, and the kernel
# writes the text anew, in which a number may have one more digit.
cpu_list() { # one number a line
  local name allowed part cpu
  while read -r name allowed; do
    [[ $name != Cpus_allowed_list: ]] || break
  done <<<"$(</proc/self/status)"
  for part in ${allowed//,/ }; do
    for ((cpu = ${part%-*}; cpu <= ${part#*-}; cpu++)); do printf '%s\n' "$cpu"; done
  done
}

cpu_server() { # comma separated
  local cpus
  mapfile -t cpus < <(cpu_list)
  [[ $cpu_clients_here != yes ]] || cpus=("${cpus[@]::cpu_server_number}")
  cpu_join "${cpus[@]}"
}

cpu_clients() { # comma separated
  local cpus
  mapfile -t cpus < <(cpu_list)
  if [[ $cpu_clients_here == yes && ${#cpus[@]} -gt $cpu_server_number ]]; then
    cpu_join "${cpus[@]:cpu_server_number}"
  else
    cpu_server
  fi
}

cpu_join() { local IFS=,; printf '%s\n' "$*"; }        # <number>...

# What sar calls the CPUs of the server, and of the clients.  Where the clients are
# other machines, all of this machine's are the server's.
cpu_of_record() { # <server | clients>
  if [[ $cpu_clients_here == yes ]]; then "cpu_$1"; else echo all; fi
}

# Idle CPUs poll from now on until this program ends. Otherwise they sleep, and whoever has work
# for one wakes it with an interrupt, which is expensive in a virtual machine. Source: Linux,
# power/pm_qos_interface.rst. Returns 1 if the kernel cannot do that.
cpu_stay_awake() {
  local state awake
  state=$(cat /sys/devices/system/cpu/cpu0/cpuidle/state0/name 2>/dev/null) || return 1
  [[ $state == POLL && -w /dev/cpu_dma_latency ]] || return 1
  exec {awake}>/dev/cpu_dma_latency
  printf '\0\0\0\0' >&"$awake"        # 0 us, as a 32-bit number; holds while the file is open
}
