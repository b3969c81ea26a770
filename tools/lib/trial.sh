# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# One run: the loads of one scene, on one page and one target, sar and the
# status page's samples beside them.

# repetition page target scene seconds warm load keepalive workers prefix begun;
# requests and streams where the loads are counted, and seconds is the most then
declare -A trial=()

trial_run() { # leaves raw outputs and PREFIX.json
  bed_commands=${trial[prefix]}.commands
  : >"$bed_commands"
  trial_start
  trial_warm_up
  trial_flood
  bed_commands=
  (trial_gather) >"${trial[prefix]}.json.tmp"   # a subshell: our own stdout is the report's
  mv "${trial[prefix]}.json.tmp" "${trial[prefix]}.json"
  trial_drain
}

# The server that the trial wants, freshly started.
trial_start() {
  local site scene=${trial[scene]}
  bed_set vhosts "${test[vhosts:$scene]-3}"
  bed_set apps "${test[apps:$scene]-}"
  bed_set workers "${trial[workers]}"
  for site in site1 site2 site3; do
    if [[ ${trial[target]} != vhostlimit ]]; then bed_set "$site" ''; else bed_set "$site" "${test[$site]-}"; fi
  done
  target_start "${trial[target]}" "${test[lines:$scene]-}"
  app_check "${trial[page]}"
  cp "$bed_dir/$(target_server "${trial[target]}").conf" "${trial[prefix]}.conf"
}

trial_url() { # <site> <page or ->
  local page=$2
  [[ $page != - ]] || page=${trial[page]}
  printf 'http://%s.test%s\n' "$1" "$(page_path "$page")"
}

trial_warm_up() { # 10 users on each page of each site
  local loads load site page pids=() requests=${trial[requests]}
  [[ -z $requests ]] || trial[requests]=100
  mapfile -t loads < <(test_loads_of "${trial[scene]}" | sort -u -k3,3 -k7,7)
  for load in "${loads[@]}"; do
    read -r _ _ site _ _ _ page <<<"$load"
    load_run "${trial[load]}" 1 10 "${trial[warm]}" "${trial[keepalive]}" \
      "$(trial_url "$site" "$page")" "$(bed_file "warm-$site-$page")" &
    pids+=("$!")
  done
  trial_wait "${trial[warm]}" "${pids[@]}"
  trial[requests]=$requests
}

trial_flood() {
  local pids=() beside=()
  trial[begun]=$(trial_clock)
  sar_run "${trial[seconds]}" "${trial[prefix]}.sar" ${trial[requests]:+1} &
  beside+=("$!")
  trial_watch >"${trial[prefix]}.samples" &
  beside+=("$!")
  trial_loads
  trial_wait "${trial[seconds]}" "${pids[@]}"
  if [[ -n ${trial[requests]} ]]; then process_stop "${beside[@]}"; else trial_wait "${trial[seconds]}" "${beside[@]}"; fi
  cp "$bed_dir/httpd.log" "${trial[prefix]}.log"
}

trial_loads() { # in the order they begin; adds to pids
  local loads load n=0 client site users from to page start length
  mapfile -t loads < <(test_loads_of "${trial[scene]}")
  : >"${trial[prefix]}.loads"
  for load in "${loads[@]}"; do
    read -r _ client site users from to page <<<"$load"
    start=$((trial[seconds] * from / 100))
    length=$((trial[seconds] * to / 100 - start))
    trial_await "$start"
    n=$((n + 1))
    printf '%s %s %s %s\n' "$n" "$(trial_clock)" "$length" "$load" >>"${trial[prefix]}.loads"
    load_run "${trial[load]}" "$client" "$users" "$length" "${trial[keepalive]}" \
      "$(trial_url "$site" "$page")" "${trial[prefix]}-load$n" &
    pids+=("$!")
  done
}

trial_clock() { printf '%s\n' "${EPOCHREALTIME/,/.}"; }

trial_await() { # <second of the run>
  local left
  while left=$(jq -n --arg t0 "${trial[begun]}" --arg s "$1" '($t0 | tonumber) + ($s | tonumber) - now'); do
    [[ $left != -* && $left != 0 ]] || return 0
    nap "$(jq -n "[$left, 0.5] | min")"
    progress_show
  done
}

# Who has been let in, who waits, how many slots there are.  One curl asks for
# all the samples: a process for each would take the clients' CPU.
trial_watch() {
  local rate=${test[samples]}
  [[ ${trial[target]} == vhostlimit ]] && ((rate)) || return 0
  (aside_exec timeout "${trial[seconds]}" curl -s -m 5 --rate "$((rate * 60))/m" \
    "http://127.0.0.1:8081/vhostlimit-status?json#[1-$((rate * trial[seconds]))]") |
    jq -c --unbuffered '{ at: now, slots, sites: [.vhosts[]
      | { key: (.name | split(".")[0]), value: { requests, waiting } }] | from_entries }' || true
}

trial_wait() { # <seconds> <pid>...
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

trial_clients() { # JSON, one for each load
  local n begun length role client site users page
  while read -r n begun length role client site users _ _ page; do
    load_record "${trial[load]}" "${trial[prefix]}-load$n" |
      jq -c --arg role "$role" --arg client "$client" --arg site "$site" --arg users "$users" \
        --arg page "$page" --arg counted "${trial[requests]}" --arg begun "$begun" --arg t0 "${trial[begun]}" --arg seconds "$length" '
        (($begun | tonumber) - ($t0 | tonumber)) as $from
        | { role: $role, client: ($client | tonumber), site: $site, users: ($users | tonumber),
            from_s: $from, to_s: ($from + ($seconds | tonumber)), seconds: ($seconds | tonumber) } + .
        | if $counted != "" then .seconds = .elapsed_s | .to_s = .from_s + .elapsed_s else . end'
  done <"${trial[prefix]}.loads"
}

trial_gather() { # JSON: the run
  local record status
  status=$(trial_status) || die 'the status page does not answer after the run'
  record=$(trial_sar)
  trial_clients | jq -s --argjson about "$(trial_about)" --arg begun "${trial[begun]}" --argjson sar "$record" \
    --argjson status "$status" --rawfile commands "${trial[prefix]}.commands" --slurpfile samples "${trial[prefix]}.samples" -f "$(in_tree tools/lib/trial.jq)"
}

trial_sar() { # JSON: nothing of loads that were over before there were two samples
  if [[ -n ${trial[requests]} ]] && ! sar_samples "${trial[prefix]}.sar" 2; then
    echo null
  else
    sar_summary "${trial[prefix]}.sar" "$(cpu_server)"
  fi
}

trial_about() { # JSON: what was run
  jq -nc --arg test "${test[name]}" --arg repetition "${trial[repetition]}" --arg page "${trial[page]}" \
    --arg target "${trial[target]}" --arg title "$(target_title "${trial[target]}")" --arg scene "${trial[scene]}" \
    --arg lines "$(target_lines "${trial[target]}" "$(test_lines "${trial[scene]}")")" \
    --arg seconds "${trial[seconds]}" --arg requests "${trial[requests]}" --arg streams "${trial[streams]}" --arg keepalive "${trial[keepalive]}" --arg workers "${trial[workers]}" '
    { test: $test, repetition: ($repetition | tonumber), page: $page, target: $target, title: $title,
      scene: $scene, configuration: $lines, workers: ($workers | tonumber),
      requests: ($requests | tonumber? // null), streams: ($streams | tonumber? // null),
      seconds: ($seconds | tonumber), keepalive: ($keepalive == "1") }'
}

trial_status() { # what the module says after the run
  if [[ ${trial[target]} == vhostlimit ]] && ((test[samples])); then
    bed_status_page '/vhostlimit-status?json'
  else
    echo null
  fi
}

trial_drain() {
  wait_until 30 bed_idle || say 'the last flood has not drained after 30 s; going on'
}
