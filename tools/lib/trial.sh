# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: Apache-2.0
# One run: the loads of one scene on one page and one target, with sar and samples of
# the status page beside them.

# repetition page target scene seconds warm load keepalive workers prefix, from
# trial_set; begun; lost: why this run does not count, a sentence.
# capacity: requests a second, see test_capacity.  again: "yes" if it is to be repeated.
# Only this file changes it.
declare -A trial=()
trial_beside_pids=()
declare -A trial_load_of=()     # pid: client, users, site and file prefix of its load

trial_set() { # <key=value>...: what the next run is
  local pair
  trial=([lost]='')
  for pair; do trial[${pair%%=*}]=${pair#*=}; done
}

trial_run() { # leaves raw outputs and, unless it was lost, PREFIX.json
  trial[lost]=''
  bed_commands=${trial[prefix]}.commands
  : >"$bed_commands"
  trial_start
  trial_warm_up
  [[ -n ${trial[lost]} ]] || trial_flood
  bed_commands=
  [[ -z ${trial[lost]} ]] || return 0
  (trial_gather) >"${trial[prefix]}.json.tmp"   # in a subshell: stdout of this shell is for the report
  mv "${trial[prefix]}.json.tmp" "${trial[prefix]}.json"
  appserver_let_go
  trial_drain
}

# A short run of all loads, without records beside them.
trial_try() {
  local pids=()
  trial[lost]=''
  trial_start
  trial_warm_up
  trial_begin
  remote_used || trial_loads
  trial_wait "${trial[seconds]}" "${pids[@]}"
}

# The server that the trial wants, freshly started.
trial_start() {
  local site scene=${trial[scene]}
  bed_set vhosts="${test[vhosts:$scene]-${bed[sites]}}" workers="${trial[workers]}" \
    mpm="${test[mpm:$scene]-event}" tls="${test[tls:$scene]-${test[tls:-]-off}}" front="${test[front:$scene]-none}" appserver="${test[appserver:$scene]-none}" pools="${test[pools:$scene]-${test[pools:-]-shared}}" instances=1 connections=0 quota="${test[quota:$scene]-}"
  for site in "${bed_sites[@]}"; do
    bed_set "$site="
    ! target_is_module "${trial[target]}" || bed_set "$site=$(test_site_lines "$site" "$scene")"
  done
  target_start "${trial[target]}" "${test[lines:$scene]-}"
  ! trial_has_daemons || fleet_start "${test[fleet:$scene]-}"
  appserver_check
  bed_configs >"${trial[prefix]}.conf"
}

# Plain Apache has no daemons: its servers take the same load, each for itself.
trial_has_daemons() { fleet_used && target_is_module "${trial[target]}"; }

# Ends what runs beside the loads, with its child processes: sadc, which sar starts,
# would live until its next sample.  A process gets SIGSTOP first, so that it starts no
# child process after they have been listed.
trial_beside_end() {
  local pid pids=()
  for pid in "${trial_beside_pids[@]}"; do
    kill -STOP "$pid" 2>/dev/null || true
    # shellcheck disable=SC2207  # pids
    pids+=("$pid" $(cat "/proc/$pid/task/$pid/children" 2>/dev/null || true))
  done
  kill -TERM "${pids[@]}" 2>/dev/null || true
  kill -CONT "${pids[@]}" 2>/dev/null || true
  process_stop "${pids[@]}"
  trial_beside_pids=()
}

trial_url() { # <site> <page or ->
  local page=$2
  [[ $page != - ]] || page=${trial[page]}
  printf '%s%s%s\n' "$(bed_url "$1")" "$(target_port "${trial[target]}" "$1")" "$(page_path "$page")"
}

trial_warm_up() { # 10 users on each page of each site
  local loads load site users page by prefix pids=()
  [[ -z ${test[cold:${trial[scene]}]-} ]] || return 0
  remote_run=- trial_load_of=()
  mapfile -t loads < <(test_loads_of "${trial[scene]}" | sort -u -k3,3 -k7,9)
  for load in "${loads[@]}"; do
    read -r _ _ site users _ _ page by <<<"$load"
    prefix=$(bed_file "warm-$site-$page-$by")
    load_run "$(trial_load "$by" "$users")" 1 10 "${trial[warm]}s" "${trial[keepalive]}" "$(trial_url "$site" "$page")" "$prefix" &
    pids+=("$!")
    trial_load_of[$!]="1 10 $site $prefix"
  done
  trial_wait "${trial[warm]}" "${pids[@]}"
}

trial_flood() {
  local web pids=()
  trial_begin
  [[ -z ${trial[lost]} ]] || return 0
  trial_await 0
  ! remote_used || remote_cpu_begin
  trial[ticks]=$(trial_ticks)
  sar_run "${trial[seconds]}" "${trial[prefix]}.sar" &
  trial_beside_pids+=("$!")
  trial_watch >"${trial[prefix]}.samples" &
  trial_beside_pids+=("$!")
  trial_meter >"${trial[prefix]}.usage" &
  trial_beside_pids+=("$!")
  ! trial_has_daemons || trial_fleet_beside
  remote_used || trial_loads
  # Taken while the loads run: when they have ended, other processes get their CPU time.
  trial_await "${trial[seconds]}" 200000
  trial[ticks]+=" $(trial_ticks)"
  trial_wait "${trial[seconds]}" "${pids[@]}"
  trial_wait "${trial[seconds]}" "${trial_beside_pids[@]}"
  trial_beside_pids=()
  [[ -n ${trial[lost]} ]] || ! remote_used || remote_cpu_end
  cp "$bed_dir/httpd.log" "${trial[prefix]}.log"
  ! trial_has_daemons || for web in $(fleet_webs); do cp "$bed_dir/fleet$web.log" "${trial[prefix]}.fleet$web.log"; done
}

# Sets the start time of the run.  Loads on other machines are started before and wait
# for it there.  Adds to pids.
trial_begin() {
  local pid ready=()
  trial[begun]=$(trial_clock)
  remote_used || return 0
  remote_run=${trial[prefix]##*/}-${trial[begun]/./}     # a repeated run must not find the start time of the first
  trial_loads
  for pid in "${!trial_load_of[@]}"; do ready+=("$pid ${trial_load_of[$pid]##* }"); done
  remote_start "${ready[@]}" || { trial_unready "$remote_answer"; return; }
  trial[begun]=$((remote_at / 1000000)).$(printf '%06d' $((remote_at % 1000000)))
}

trial_unready() { # <pid>: of a load that did not get ready
  if process_gone "$1"; then
    wait "$1" || trial_failed "$1" "$?"
  else
    trial[lost]="client $(remote_host "${trial_load_of[$1]%% *}"): it was not ready in time"
  fi
  process_stop "${pids[@]}"
}

trial_loads() { # starts the loads in the order of their start times; adds to pids
  local loads load n=0 client site users from to page by start length
  mapfile -t loads < <(test_loads_of "${trial[scene]}")
  : >"${trial[prefix]}.loads"
  for load in "${loads[@]}"; do
    read -r _ client site users from to page by <<<"$load"
    start=$((trial[seconds] * from / 100))
    length=$((trial[seconds] * to / 100 - start))
    if remote_used; then remote_delay=$start; else trial_await "$start"; fi
    n=$((n + 1))
    printf '%s %s %s %s\n' "$n" "$(trial_clock)" "$length" "$load" >>"${trial[prefix]}.loads"
    rm -f "${trial[prefix]}-load$n.err"         # a lost run's, which says that it was ready
    load_run "$(trial_load "$by" "$users")" "$client" "$users" "${length}s" "${trial[keepalive]}" \
      "$(trial_url "$site" "$page")" "${trial[prefix]}-load$n" &
    pids+=("$!")
    trial_load_of[$!]="$client $users $site ${trial[prefix]}-load$n"
  done
}

# Prints the generator with its options.  rate=N% becomes the number of requests a second of
# each user.
trial_load() { # <generator or -> <users>
  local percent each
  if [[ $1 == - ]]; then
    echo "${trial[load]}"
  elif [[ $1 =~ rate=([0-9.]+)% ]]; then
    percent=${BASH_REMATCH[1]}
    each=$(awk -v capacity="${trial[capacity]}" -v percent="$percent" -v users="$2" 'BEGIN { printf "%.6f", capacity * percent / 100 / users }')
    echo "${1/rate=$percent%/rate=$each}"
  else
    echo "$1"
  fi
}

trial_clock() { printf '%s\n' "${EPOCHREALTIME/,/.}"; }

trial_await() { # <second of the run> [microseconds less]
  local until left
  until=$((${trial[begun]/./} + $1 * 1000000 - ${2-0}))
  while left=$((until - ${EPOCHREALTIME/[.,]/})) && ((left > 0)); do
    interruptible_sleep "0.$(printf '%06d' "$((left < 500000 ? left : 500000))")"
    progress_show
  done
}

# Samples the status page: admitted and queued requests of each site, slots.  One curl
# asks for all samples: a process for each would take the clients' CPU time.
trial_watch() {
  local rate=${test[samples]}
  target_is_module "${trial[target]}" && ((rate)) || return 0
  (exec_on_client_cpus timeout "${trial[seconds]}" curl -s -m 5 --rate "$((rate * 60))/m" \
    "http://127.0.0.1:8081/vhostlimit-status?json#[1-$((rate * trial[seconds]))]") |
    lib_jq result sample -c --unbuffered || true
}

# Prints, every second and at both ends, the CPU time in µs that the kernel has counted
# for all of PHP-FPM, for the module's sampler, for each site's cgroup, and for the processes that serve only the site.
trial_meter() {
  local site second file files=() backends=() pids sampler
  bed_unlock_child
  for site in "${bed_sites[@]}"; do
    files+=("$(cgroup_file "$(bed_site_cgroup "$site")" cpuacct.usage cpu.stat || true)")
    backends+=("$(bed_backend_pids "$site" | paste -sd ' ')")
  done
  mapfile -t pids < <(bed_fpm_pids)
  sampler=$(pgrep -P "$(process_ours "$bed_dir/httpd.pid" "$bed_dir/httpd.conf" || echo 0)" -x vl-sampler || true)
  for ((second = 0; second <= trial[seconds]; second++)); do
    trial_pause "$second"
    printf '%s %s %s' "$(trial_clock)" "$(trial_or_null process_used_us "${pids[@]}")" "$(trial_or_null process_used_us "$sampler")"
    for file in "${files[@]}"; do
      printf ' %s' "$(trial_or_null cgroup_used_us "$file")"
    done
    for site in "${backends[@]}"; do
      # shellcheck disable=SC2086  # pids
      printf ' %s' "$(trial_or_null process_cpu_us $site)"
    done
    printf '\n'
  done
}

# Waits until this second of the run, in a process beside the loads: without a process that outlives
# this one.
trial_pause() { # <second>
  local until left quiet
  until=$((${trial[begun]/./} + $1 * 1000000))
  exec {quiet}<> <(:)
  while left=$((until - ${EPOCHREALTIME/[.,]/})) && ((left > 0)); do
    kill -0 "$$" 2>/dev/null || exit 0  # bench.sh was killed
    read -r -t "0.$(printf '%06d' "$((left > 999999 ? 999999 : left))")" -u "$quiet" || true
  done
  exec {quiet}>&-
}

trial_or_null() { # <command>...: the number it prints
  local us
  us=$("$@") || true
  printf '%s\n' "${us:-null}"
}

trial_wait() { # <seconds> <pid>...
  local deadline=$((SECONDS + $1 + $1 / 10 + 60)) pid
  while ! process_gone "${@:2}"; do
    ((SECONDS < deadline)) || { trial_overdue "${@:2}"; return; }
    interruptible_sleep 0.5
    progress_show
  done
  for pid in "${@:2}"; do
    wait "$pid" || trial_failed "$pid" "$?"
  done
  trial_load_of=()
}

trial_overdue() { # <pid>...: one of them is still there
  local pid client users site prefix why='it was still running a minute after its end was due'
  for pid; do
    process_gone "$pid" || break
  done
  read -r client users site prefix <<<"${trial_load_of[$pid]-}"
  if ! remote_used && trial_is_mishap overdue "$prefix"; then
    trial[lost]="the load of client $client, $users users on $site: $why"
    trial[again]=yes
  else
    invalidate_run "$pid" "$why"
  fi
  process_stop "$@"
  trial_load_of=()
}

trial_failed() { # <pid> <status>
  local prefix=${trial_load_of[$1]-}
  if remote_used && [[ -n $prefix ]]; then
    invalidate_run "$1" "$(remote_lost "$2" "${prefix##* }")"
    ! trial_is_mishap "$2" "${prefix##* }" || trial[again]=yes
  elif [[ -n $prefix ]] && trial_is_mishap "$2" "${prefix##* }"; then
    trial[lost]=$(trial_failure "$@")
    trial[again]=yes
  else
    die "$(trial_failure "$@")"
  fi
}

# If a load on another machine fails, this run is lost.  If a load on this machine fails,
# the program ends.
invalidate_run() { # <pid> <why>
  local client users site
  read -r client users site _ <<<"${trial_load_of[$1]-}"
  [[ -n $client ]] || die "sar, or the sampling of the status page: $2"
  remote_used || die "the load of client $client, $users users on $site: $2"
  trial[lost]="client $(remote_host "$client"), $users users on $site: $2"
}

# Does a run, and repeats it at most twice if it was lost by a mishap of a load generator.
trial_again() { # <trial_run | trial_try>
  trial[again]=''
  "$1"
  for _ in 1 2; do
    [[ -n ${trial[again]} ]] || break
    say "${trial[lost]}; the run is repeated"
    trial[again]=''
    "$1"
  done
}

# siege fails if its time is over before all of its users have started.  Now and then it
# crashes at the end of a run (4.0.7, in pthread_cancel()), or hangs there.
trial_is_mishap() { # <status, or "overdue"> <file prefix of the load>: does another try help?
  case $1 in
    139) ;;
    overdue) [[ -e $2.siege ]] ;;
    *) grep -qs '^Unable to spawn' "$2.err" ;;
  esac
}

trial_failure() { # <pid> <status>: a sentence
  local client users site prefix
  [[ -n ${trial_load_of[$1]-} ]] || { echo "sar, or the sampling of the status page, ended with status $2"; return; }
  read -r client users site prefix <<<"${trial_load_of[$1]}"
  printf 'the load of client %s, %s users on %s, ended with status %s: %s\n' \
    "$client" "$users" "$site" "$2" "$(tail -n 1 "$prefix.err" 2>/dev/null)"
}

trial_records() { # two lines for each load, see result.jq
  local n begun length role client site users page by
  while read -r n begun length role client site users _ _ page by; do
    ! remote_used || begun=$(remote_began "$client" "${trial[prefix]}-load$n")
    printf '%s\n' "$role $client $site $users $page $begun $length"
    load_record "$(trial_load "$by" "$users")" "${trial[prefix]}-load$n"
  done <"${trial[prefix]}.loads"
}

trial_clients() { # <filter of jq> [<argument of jq>]...: its function clients gives the loads
  trial_records |
    lib_jq result "$1" -Rn --arg run_began "${trial[begun]}" "${@:2}"
}

trial_gather() { # JSON: the run
  local record status
  status=$(trial_status) || die 'the status page does not answer after the run'
  record=$(sar_summary "${trial[prefix]}.sar" "$(cpu_of_record server)" "$(cpu_of_record clients)")
  trial_clients 'include "trial"; [clients] | run' --argjson about "$(trial_about)" --argjson sar "$record" \
    --argjson status "$status" --rawfile usage "${trial[prefix]}.usage" --argjson fleet "$(trial_fleet)" --argjson client_cpu "$(remote_cpu_json)" \
    --argjson busy "$(trial_is_busy)" --arg ticks "${trial[ticks]}" --rawfile commands "${trial[prefix]}.commands" \
    --slurpfile samples "${trial[prefix]}.samples"
}

# Prints the CPU time, in ticks: of the CPUs in use, all and busy, of all processes, and of those of
# the measurement.  These are the processes in the test bed's network namespaces, PHP-FPM,
# this one and its parent, and those beside the loads; the time of ended child processes is in their
# parents'.  Softirqs are left out.  Without network namespaces nothing is printed.
trial_ticks() {
  local names pids=("$$" "${trial_beside_pids[@]}") process name
  [[ ${bed[network]} == own ]] || return 0
  for process in "${trial_beside_pids[@]}"; do
    # shellcheck disable=SC2207  # pids
    pids+=($(cat "/proc/$process/task/$process/children" 2>/dev/null || true))
  done
  mapfile -t names < <(fleet_spaces)
  # shellcheck disable=SC2207  # pids
  pids+=("$BASHPID" $(bed_fpm_pids))
  for name in "$bed_server" "${bed_clients[@]/#/vl-client}" "${names[@]}"; do
    # shellcheck disable=SC2207  # pids
    [[ ! -e /run/netns/$name ]] || pids+=($(netns_pids_of "/run/netns/$name"))
  done
  { grep -E "^cpu($(cpu_list | paste -sd '|' -)) " /proc/stat
    cat /proc/[0-9]*/stat 2>/dev/null || true           # a process may have ended
  } | awk -v pids="${pids[*]}" 'BEGIN { for (i = split(pids, list, " "); i; i--) is_ours[list[i]] }
    /^cpu/ { for (i = 2; i <= 9; i++) all += $i; busy += $2 + $3 + $4; next }
    $2 ~ /ksoftirqd/ { next }
    { pid = $1; sub(/.*[)] /, ""); used += $12 + $13 + $14 + $15 }
    pid in is_ours { ours += $12 + $13 + $14 + $15 }
    END { printf "%d %d %d %d", all, busy, used, ours }'
}

# Prints whether the test expects the server's CPU to be busy in this run: true or false.
trial_is_busy() { if [[ -n ${test[idle]-} || ${trial[page]} == sleep ]]; then echo false; else echo true; fi; }

trial_about() { # JSON: what was run
  lib_jq result about -nc --arg test "${test[name]}" --arg repetition "${trial[repetition]}" --arg page "${trial[page]}" \
    --arg target "${trial[target]}" --arg title "$(target_title "${trial[target]}")" --arg scene "${trial[scene]}" \
    --arg configuration "$(target_lines "${trial[target]}" "$(test_lines "${trial[scene]}")")" --arg workers "${trial[workers]}" \
    --arg capacity "${trial[capacity]-}" --arg seconds "${trial[seconds]}" --arg keepalive "${trial[keepalive]}" \
    --arg server_cpus "$(cpu_server | tr , '\n' | wc -l)"
}

trial_status() { # JSON: the status page after the run, or null
  if target_is_module "${trial[target]}" && ((test[samples])); then
    bed_status_page '/vhostlimit-status?json'
  else
    echo null
  fi
}

trial_drain() {
  poll_until 30 bed_idle || say 'connections of the last run are still open after 30 s; continuing'
}
