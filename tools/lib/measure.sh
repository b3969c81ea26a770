# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# All runs of a test: for each repetition and page every target and scene.  Their order
# rotates, so that a machine that becomes slower is no disadvantage for one target.  A
# run that the machine disturbed (noise.jq) is void: it is repeated and not counted.

# out load keepalive repeat seconds warm targets pages workers length, from measure_plan
declare -A measure=()
declare -A measure_tuned=()     # page: plain Apache's best number of threads (plain-best)
declare -A measure_capacity=()  # page: answers a second of plain Apache (test_capacity)
measure_runs=() measure_tries='' measure_unreported='' measure_rate=''
measure_lost=()                 # a sentence for each run whose client failed
measure_void=()                 # files of runs that are void
measure_missing=()              # "page target scene repetition" without a run that counts
declare -A measure_slots=()     # file of a run that counts: repetition page target scene
declare -A measure_again=()     # "repetition page target scene": how often it was made again
measure_again_all=0 measure_again_most=0       # repeats of all runs: made, allowed

measure_plan() { # <key=value>...: what is measured
  local pair
  for pair; do measure[${pair%%=*}]=${pair#*=}; done
}

measure_contenders() { # a line "target scene" each
  local target scene
  for target in ${measure[targets]//,/ }; do
    for scene in "${test_scenes[@]}"; do
      printf '%s %s\n' "$target" "$scene"
    done
  done
}

measure_has_module() {
  local target
  for target in ${measure[targets]//,/ }; do
    ! target_is_module "$target" || return 0
  done
  return 1
}

measure_rotated() { # <repetition, from 1>: lines of stdin, begun with another one each time
  local -a lines
  mapfile -t lines
  local n=${#lines[@]} i
  for ((i = 0; i < n; i++)); do
    printf '%s\n' "${lines[(i + $1 - 1) % n]}"
  done
}

measure_pages() { # one a line
  tr , '\n' <<<"${measure[pages]}"
}

measure_all() {
  local repetition page target scene contenders who
  local seconds runs time
  seconds=$(measure_seconds)
  runs=$(measure_count)
  time=$(progress_time "$seconds")
  measure_again_most=$(((runs + 1) / 2 + 1))
  say "$runs runs, about $time"
  progress_begin "$seconds"
  measure_tune
  measure_capacities
  on_exit measure_keep
  on_exit trial_beside_end
  for ((repetition = 1; repetition <= measure[repeat]; repetition++)); do
    for page in $(measure_pages); do
      mapfile -t contenders < <(measure_contenders | measure_rotated "$repetition")
      for who in "${contenders[@]}"; do
        read -r target scene <<<"$who"
        measure_one "$repetition" "$page" "$target" "$scene"
      done
    done
  done
  measure_outliers
  progress_end
}

# Makes a run, and repeats it while it is void and may be repeated.
measure_one() { # <repetition> <page> <target> <scene>
  while :; do
    measure_once "$@"
    [[ -z ${trial[lost]} ]] || return 0
    measure_runs+=("${trial[prefix]}.json")
    measure_slots[${trial[prefix]}.json]=$*
    if [[ ${measure[noisy]} == keep ]] || jq -e '.noise == []' "${trial[prefix]}.json" >/dev/null; then break; fi
    measure_discard "${trial[prefix]}.json"
    measure_may_repeat "$*" || break
  done
  measure_unreported=yes
  measure_save no
}

# Removes a void run from those that count.
measure_discard() { # <file>
  local file kept=() who=${measure_slots[$1]}
  for file in "${measure_runs[@]}"; do
    [[ $file == "$1" ]] || kept+=("$file")
  done
  measure_runs=("${kept[@]}")
  measure_void+=("$1")
  say "void run ($who): $(jq -r '.noise | map(.why) | join("; ")' "$1")"
}

# Returns 0 if this run may be repeated, and counts the repeat.  Each run is repeated at
# most twice, and all of them together half as often as there are runs, so that a
# measurement on a machine that is always disturbed ends.
measure_may_repeat() { # <repetition page target scene>
  if ((${measure_again[$1]-0} >= 2 || measure_again_all >= measure_again_most)); then
    measure_missing+=("$1")
    return 1
  fi
  measure_again[$1]=$((${measure_again[$1]-0} + 1))
  measure_again_all=$((measure_again_all + 1))
  progress_more "$(measure_seconds_run)"
}

# Finds runs that are far slower than others of the same target, page and scene, when all
# have been made, and repeats them.
measure_outliers() {
  local index reason found files repeat
  while ((${#measure_runs[@]})); do
    found=$(lib_jq noise '[outliers][] | "\(.[0]) \(.[1] | tojson)"' -sr "${measure_runs[@]}")
    [[ -n $found ]] || return 0
    files=("${measure_runs[@]}") repeat=()
    while read -r index reason; do
      jq -c --argjson reason "$reason" '.noise += [$reason]' "${files[index]}" >"${files[index]}.tmp"
      mv "${files[index]}.tmp" "${files[index]}"
      [[ ${measure[noisy]} == void ]] || continue
      measure_discard "${files[index]}"
      ! measure_may_repeat "${measure_slots[${files[index]}]}" || repeat+=("${measure_slots[${files[index]}]}")
    done <<<"$found"
    for found in "${repeat[@]}"; do
      # shellcheck disable=SC2086  # its words
      measure_one $found
    done
    measure_save no
    ((${#repeat[@]})) || return 0
  done
}

measure_once() { # <repetition> <page> <target> <scene>: leaves trial[prefix].json, unless the run is lost
  local scene=${4#-} again=${measure_again[$*]-0} prefix title workers
  prefix=${measure[out]}/$1-$2-$3${scene:+-$scene}
  ((again == 0)) || prefix+=-again$again
  title=$(target_title "$3")${scene:+, $scene}
  ((again == 0)) || title+=" (again)"
  workers=$(measure_workers "$2" "$3")
  progress_step "$2 page on $title, $1 of ${measure[repeat]}"
  measure_set "$@" "${measure[seconds]}" "$workers" "$prefix"
  trial_again trial_run
  progress_done "$(measure_seconds_run)"
  [[ -n ${trial[lost]} ]] || return 0
  # A run that lost a client does not count.  If that machine no longer answers, no later
  # run would count either, and the measurement ends.
  say "run lost: ${trial[lost]}"
  measure_lost+=("${trial[page]} page, ${trial[target]}, repetition ${trial[repetition]}: ${trial[lost]}")
  remote_alive || die "$remote_answer; stopping; completed runs are reported"
}

measure_set() { # <repetition> <page> <target> <scene> <seconds> <workers> <prefix>
  trial_set repetition="$1" page="$2" target="$3" scene="$4" seconds="$5" workers="$6" prefix="$7" \
    warm="${measure[warm]}" load="${measure[load]}" keepalive="${test[keepalive:$4]-${measure[keepalive]}}" \
    capacity="${measure_capacity[$2]-}"
}

measure_count() { echo $(($(measure_contenders | wc -l) * $(measure_pages | wc -l) * measure[repeat])); }    # runs

measure_seconds() { # estimate for all runs
  local runs tuned capacities
  runs=$(measure_count)
  tuned=$(($(measure_tuned_pages | wc -l) * $(measure_threads | wc -l)))
  capacities=$(measure_capacity_pages | wc -l)
  echo $((runs * $(measure_seconds_run) + tuned * $(measure_seconds_try) + capacities * $(measure_seconds_capacity)))
}

measure_seconds_run() { echo $((measure[seconds] + measure[warm] + 5)); }
measure_seconds_try() { echo $((measure[try] + measure[warm] + 4)); }

# --- plain Apache with its best number of threads -------------------------

# The numbers of threads that are tried, one a line.  1200 is more than the users of most
# tests: with keep-alive each connection can have a thread.
measure_threads() {
  printf '%s\n' 25 50 100 "${measure[workers]}" 1200 | sort -nu
}

measure_tuned_pages() {
  [[ ,${measure[targets]}, != *,plain-best,* ]] || measure_pages
}

measure_tune() {
  local page threads tried
  for page in $(measure_tuned_pages); do
    tried=
    for threads in $(measure_threads); do
      progress_step "$page page on plain Apache with $threads threads"
      measure_try "$page" "$threads"
      progress_done "$(measure_seconds_try)"
      tried+="$threads $measure_rate"$'\n'
    done
    measure_tuned[$page]=$(measure_best <<<"$tried")
    measure_tries+=$(sed "/./s/^/$page /" <<<"$tried")$'\n'
  done
}

# Sets measure_rate to the responses a second of a short run.  It does not print the
# rate: the run's processes would survive a subshell, and keep the lock.
measure_try() { # <page> <threads> [seconds [scene]]
  measure_set 0 "$1" plain "${4-${test_scenes[0]}}" "${3-${measure[try]}}" "$2" "${measure[out]}/0-$1-plain-$2"
  trial_again trial_try
  [[ -z ${trial[lost]} ]] || die "${trial[lost]}"
  trial_drain
  measure_rate=$(trial_clients '[clients] | map(.transactions / .seconds) | add')
}

measure_best() { sort -k2,2g | sed -n '$s/ .*//p'; }    # of lines "threads rate": the threads with the highest rate

measure_workers() { # <page> <target>
  if [[ $2 == plain-best ]]; then echo "${measure_tuned[$1]}"; else echo "${measure[workers]}"; fi
}

# --- the capacity of plain Apache ---------------------------------------------

measure_capacity_length=10      # seconds: shorter runs differ too much

measure_seconds_capacity() { echo $((measure_capacity_length + measure[warm] + 4)); }

measure_capacity_pages() {
  [[ -z ${test[capacity]-} ]] || measure_pages
}

measure_capacities() {
  local page scene=${test[capacity]-}
  [[ $scene != first ]] || scene=${test_scenes[0]}
  for page in $(measure_capacity_pages); do
    progress_step "$page page on plain Apache, for its capacity"
    measure_try "$page" "${measure[workers]}" "$measure_capacity_length" "$scene"
    progress_done "$(measure_seconds_capacity)"
    measure_capacity[$page]=$measure_rate
    measure_tries+="$page ${measure[workers]} $measure_rate"$'\n'
  done
}

# --- what is kept ---------------------------------------------------------

measure_save() { # <complete: yes or no>
  local void='[]'
  ((${#measure_void[@]} == 0)) || void=$(lib_jq result '[inputs | void]' -nc "${measure_void[@]}")
  result_here=${result_here:-$(result_machine)}
  (result_write "$(measure_options)" "$1" "$void" "${measure_runs[@]}") >"${measure[out]}/result.json.tmp"
  mv "${measure[out]}/result.json.tmp" "${measure[out]}/result.json"
}

# Fails if runs were lost, or if no run counts.  Sets the exit status of --strict.
measure_end() {
  local complete=yes
  ((${#measure_lost[@]} == 0)) || complete=no
  if ((${#measure_runs[@]} + ${#measure_void[@]})); then
    measure_save "$complete"
    measure_report
  fi
  [[ $complete == yes ]] || die "${#measure_lost[@]} runs were lost: $(printf '%s; ' "${measure_lost[@]}")"
  ((${#measure_runs[@]})) || say 'all runs are void; this machine is too noisy for a measurement'
  [[ ${measure[strict]} == no ]] || measure_judge
}

# For --strict: exit status 1 if a row missed its bar, 3 if a row with a bar has no value.
measure_judge() {
  local missed unknown result=${measure[out]}/result.json
  missed=$(jq '[.rows[] | select(.bar_met == false)] | length' "$result")
  unknown=$(jq '[.rows[] | select(.bar != "" and .bar_met == null)] | length' "$result")
  if ((missed)); then
    say "rows that missed their bars: $missed"
    # shellcheck disable=SC2034  # for common.sh: 1 is the answer here, not a failure
    failure_status=1
    exit 1
  fi
  ((${#measure_runs[@]})) || die 'no run counts, so no bar could be judged'
  ((unknown == 0)) || die "rows with a bar that were not measured: $unknown"
}

measure_keep() { # after an interruption: reports the completed runs
  [[ -n $measure_unreported && -e ${measure[out]}/result.json ]] || return 0
  progress_end
  measure_report
}

measure_report() {
  measure_unreported=''
  local out=${measure[out]}
  report_print "$out/result.json" "$out"
  say "$out: report.txt, result.json and raw outputs"
}

measure_options() { # JSON
  lib_jq result options -nc --arg length "${measure[length]}" --arg seconds "${measure[seconds]}" --arg repeat "${measure[repeat]}" \
    --arg keepalive "${measure[keepalive]}" --arg load "$(measure_loads)" --arg mpm "${bed[mpm]}" \
    --arg workers "${measure[workers]}" --arg children "${bed[children]}" \
    --arg tuning "$measure_tries" --arg missing "$(printf '%s\n' "${measure_missing[@]}")" \
    --arg command "${measure[command]-}" --arg noisy "${measure[noisy]-void}" --args -- "${measure_lost[@]}"
}

measure_loads() { # names and versions of the load generators
  local generator
  for generator in $(test_generators "${measure[load]}"); do
    printf '%s\n' "$(load_version "$generator")"
  done | sort -u | measure_join
  ! remote_used || printf '%s\n' "${remote_hosts[@]}" | measure_join | sed 's/^/ on /'
}

measure_join() { paste -sd ';' | sed 's/;/, /g' | tr -d '\n'; }      # lines -> "a, b, c"
