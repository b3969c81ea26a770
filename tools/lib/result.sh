# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# One JSON file for a whole measurement: options, machine, runs, conclusion.

result_machine() { # JSON
  jq -nc --arg kernel "$(uname -r)" \
    --arg cpu "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | sed -n 1p)" \
    --arg cpus "$(cpu_list | wc -l)" --arg server "$(cpu_server)" --arg clients "$(cpu_clients)" \
    --arg memory "$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)" \
    --arg system "$(result_system)" --arg cgroup "$(cgroup_kind)" \
    --arg httpd "$(httpd_version "$(httpd_binary)")" --arg php "$(fpm_version "$(fpm_binary)")" '
    { system: $system, kernel: $kernel, cpu: $cpu, cpus: ($cpus | tonumber),
      memory_kb: ($memory | tonumber), cgroup: $cgroup, httpd: $httpd, php: $php,
      server_cpus: $server, client_cpus: $clients, pinned: ($server != $clients) }'
}

result_system() {
  # shellcheck disable=SC1091  # the machine's own
  (. /etc/os-release && printf '%s\n' "$PRETTY_NAME")
}

result_write() { # <options as JSON> <run.json>... ; result on stdout
  jq -s --argjson options "$1" --argjson machine "$(result_machine)" \
    --arg when "$(date -u +%Y-%m-%dT%H:%M:%SZ)" '
    def rate(r): r | .sites[] | select(.role == "victim").rate;
    . as $runs
    | { schema: 1, finished: $when, options: $options, machine: $machine, runs: $runs,
        conclusion: (group_by(.page) | map(
          (map(select(.target == "plain"))[0].total.rate // null) as $plain
          | .[] | { page, target, title, victim_rate: rate(.),
              half_of_plain: (if $plain then $plain / 2 else null end),
              fraction: (if $plain and $plain > 0 then rate(.) / ($plain / 2) else null end),
              total_to_plain: (if $plain and $plain > 0 then .total.rate / $plain else null end) })) }' \
    "${@:2}"
}
