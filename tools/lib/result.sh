# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# result.json: options, machine, runs and rows of a whole measurement.

result_here=''                  # what result_machine printed, if it is to be asked once only

result_machine() { # JSON
  # shellcheck disable=SC1091  # the machine's own
  lib_jq result machine -nc --arg kernel "$(uname -r)" \
    --arg cpu "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | sed -n 1p)" \
    --arg cpus "$(cpu_list | wc -l)" --arg server_cpus "$(cpu_server)" \
    --arg client_cpus "$(if [[ $cpu_clients_here == yes ]]; then cpu_clients; else echo 'of other machines'; fi)" \
    --arg memory_kb "$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)" \
    --arg system "$(. /etc/os-release && printf '%s\n' "$PRETTY_NAME")" --arg cgroup "$(cgroup_kind)" --arg sysstat "$(sadf -V | sed -n 1p)" \
    --arg httpd "$(httpd_version "$(httpd_binary)")" --arg php "$(fpm_version "$(fpm_binary)")"
}

result_write() { # <options as JSON> <complete: yes or no> <void runs as JSON> <run.json>... ; result on stdout
  local rows_texts
  rows_set_texts
  lib_jq result "include \"rows\"; include \"isolation\"; result($(rows_filter))" \
    -s --argjson options "$1" --arg complete "$2" --argjson void "$3" --argjson machine "${result_here:-$(result_machine)}" \
    --arg test "${test[name]}" --arg summary "${test[summary]}" \
    --argjson build "${build_record-null}" "${rows_texts[@]}" "${@:4}" </dev/null       # there may be no run
}
