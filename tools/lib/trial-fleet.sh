# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# What a run of a fleet has beside its loads: samples of each server's status page, the CPU
# time of servers and daemons, the traffic of the store, and the store's failure.
# Part of trial.sh, which has the variables.

trial_fleet_beside() { # adds to trial_beside_pids
  local web
  : >"${trial[prefix]}.events"
  for web in $(fleet_webs); do
    trial_fleet_watch "$web" >"${trial[prefix]}.samples$web" &
    trial_beside_pids+=("$!")
  done
  trial_fleet_meter >"${trial[prefix]}.meter" &
  trial_beside_pids+=("$!")
  # shellcheck disable=SC2086  # two numbers
  trial_store ${test[store:${trial[scene]}]-} &
  trial_beside_pids+=("$!")
}

# As trial_watch.  A page with very many sites costs more than what is measured.
trial_fleet_watch() { # <server>
  local rate=${test[fleet_samples]}
  ((bed[vhosts] <= 100)) || return 0
  (fleet_look "$1" timeout "${trial[seconds]}" curl -s -m 5 --rate "$((rate * 60))/m" \
    "http://127.0.0.1:8081/vhostlimit-status?json#[1-$((rate * trial[seconds]))]") |
    lib_jq result "fleet_sample($1)" -c --unbuffered || true
}

# Prints a line every second and at both ends: time of day, bytes to and from the store,
# and of each server the CPU time of its group and of its daemon, µs.
trial_fleet_meter() {
  local second web
  for ((second = 0; second <= trial[seconds]; second++)); do
    trial_pause "$second"
    printf '%s %s' "$(trial_clock)" "$(trial_fleet_traffic)"
    for web in $(fleet_webs); do
      printf ' %s %s' "$(trial_or_null cgroup_used_us "$(cgroup_file "$(fleet_cgroup "$(fleet_name "$web")")" cpuacct.usage cpu.stat || true)")" \
        "$(trial_or_null process_used_us "$(<"$bed_dir/fleet$web.pid")")"
    done
    printf '\n'
  done
}

trial_fleet_traffic() { # two numbers, or null null without a store
  fleet_ask info stats | tr -d '\r' | awk -F: '
    $1 == "total_net_input_bytes" { got = $2 }
    $1 == "total_net_output_bytes" { sent = $2 }
    END { print got == "" ? "null null" : got " " sent }'
}

# Kills the store and starts it again, and writes the times of both.
trial_store() { # [<from> <to>]: percent of the run
  (($#)) || return 0
  trial_pause $((trial[seconds] * $1 / 100))
  echo "$(trial_clock) killed" >>"${trial[prefix]}.events"
  fleet_store_kill
  trial_pause $((trial[seconds] * $2 / 100))
  fleet_store_start
  echo "$(trial_clock) answers" >>"${trial[prefix]}.events"
}

trial_fleet() { # JSON, or null
  trial_has_daemons || { echo null; return; }
  local web
  cat "${trial[prefix]}".samples[0-9] | jq -c . >"${trial[prefix]}.fleet"
  jq -nc --arg quota "${bed[quota]}" --slurpfile samples "${trial[prefix]}.fleet" \
    --argjson meter "$(lib_jq result fleet_meter -Rc "${trial[prefix]}.meter" | jq -sc .)" \
    --argjson events "$(lib_jq result fleet_event -Rc "${trial[prefix]}.events" | jq -sc .)" \
    --argjson daemons "$(for web in $(fleet_webs); do fleet_says "$web" '{ server, state, rows, servers: (.servers | length), sites: (.servers[0].sites) }'; done | jq -sc .)" \
    '{ quota: (if $quota == "" then null else $quota | tonumber end), $samples, $meter, $events, $daemons }'
}
