# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The noisy neighbour: 100 users of client 1 on site1, 500 users each of
# clients 2 and 3 on site2, on one page and one target; sar beside it.

noisy_clients=('1 site1 100' '2 site2 500' '3 site2 500')   # client, site, users

noisy_path() { # <page>
  case $1 in static) echo /index.html ;; php) echo /info.php ;; esac
}

noisy_users_most() { printf '%s\n' "${noisy_clients[@]}" | sort -k3n | sed -n '$s/.* //p'; }

# Leaves raw outputs under the prefix and prints the run as JSON.
noisy_run() { # <load> <page> <target> <seconds> <warm-up seconds> <keepalive> <prefix>
  noisy_warm_up "$1" "$2" "$5" "$6"
  noisy_flood "$1" "$2" "$3" "$4" "$6" "$7"
  noisy_gather "$1" "$2" "$3" "$4" "$7" >"$7.json"
  noisy_drain
}

noisy_warm_up() { # <load> <page> <seconds> <keepalive>
  local site path pids=()
  path=$(noisy_path "$2")
  for site in site1 site2; do
    load_run "$1" 1 10 "$3" "$4" "http://$site.test$path" "$(bed_file "warm-$site")" &
    pids+=("$!")
  done
  noisy_wait "$3" "${pids[@]}"
}

noisy_flood() { # <load> <page> <target> <seconds> <keepalive> <prefix>
  local who client site users path pids=()
  path=$(noisy_path "$2")
  for who in "${noisy_clients[@]}"; do
    read -r client site users <<<"$who"
    load_run "$1" "$client" "$users" "$4" "$5" "http://$site.test$path" "$6-client$client" &
    pids+=("$!")
  done
  sar_run "$4" "$6.sar" &
  pids+=("$!")
  noisy_watch "$3" "$4" >"$6.queue" &
  pids+=("$!")
  noisy_wait "$4" "${pids[@]}"
}

# Who waits and how many slots there are, once a second while the flood lasts.
noisy_watch() { # <target> <seconds>
  local end=$((SECONDS + $2 - 1))
  [[ $1 == vhostlimit ]] || return 0
  while ((SECONDS < end)); do
    nap 1
    bed_status_page '/vhostlimit-status?json' |
      jq -c '{ slots, waiting: [.vhosts[] | { name, waiting }] }' || true
  done
}

noisy_wait() { # <seconds> <pid>...
  local deadline=$((SECONDS + $1 + 60)) pid
  while ! process_gone "${@:2}"; do
    ((SECONDS < deadline)) || die "a load generator is still running a minute after its time"
    nap 0.5
    progress_show
  done
  for pid in "${@:2}"; do
    wait "$pid" || die "a load generator or sar failed (see the *.err files)"
  done
}

noisy_gather() { # <load> <page> <target> <seconds> <prefix>
  local who client site users record status
  status=$(noisy_status "$3") || die 'the status page does not answer after the run'
  record=$(sar_summary "$5.sar" "$(cpu_server)")
  for who in "${noisy_clients[@]}"; do
    read -r client site users <<<"$who"
    load_record "$1" "$5-client$client" |
      jq -c --arg c "$client" --arg s "$site" --arg u "$users" \
        '{ client: ($c | tonumber), site: $s, users: ($u | tonumber) } + .'
  done | jq -s --arg page "$2" --arg target "$3" --arg title "$(target_title "$3")" \
    --arg seconds "$4" --arg lines "$(target_lines "$3")" --argjson sar "$record" \
    --argjson status "$status" --slurpfile queue "$5.queue" -f "$(in_tree tools/lib/noisy.jq)"
}

noisy_status() { # <target>: what the module says after the run
  if [[ $1 == vhostlimit ]]; then bed_status_page '/vhostlimit-status?json'; else echo null; fi
}

noisy_drain() {
  wait_until 30 bed_idle || say 'the last flood has not drained after 30 s; going on'
}
