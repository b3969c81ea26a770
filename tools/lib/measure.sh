# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# All runs of a test: for each repetition and page every target and scene, in an
# order that rotates, so that a machine that becomes slower wrongs nobody.

declare -A measure=()           # out load keepalive repeat seconds warm targets pages workers length
declare -A measure_tuned=()     # page: plain Apache's best number of threads
measure_runs=() measure_tries='' measure_unreported='' measure_rate=''
measure_lost=()                 # runs that do not count, a sentence each

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
  progress_begin "$(measure_seconds)"
  measure_tune
  on_exit measure_keep
  on_exit trial_end
  for ((repetition = 1; repetition <= measure[repeat]; repetition++)); do
    for page in $(measure_pages); do
      mapfile -t contenders < <(measure_contenders | measure_rotated "$repetition")
      for who in "${contenders[@]}"; do
        read -r target scene <<<"$who"
        measure_one "$repetition" "$page" "$target" "$scene"
      done
    done
  done
  progress_end
}

measure_one() { # <repetition> <page> <target> <scene>
  local scene=${4#-}
  progress_step "$2 page on $(target_title "$3")${scene:+, $scene}, $1 of ${measure[repeat]}"
  measure_set "$@" "${measure[seconds]}" "$(measure_workers "$2" "$3")" "${measure[out]}/$1-$2-$3${scene:+-$scene}"
  trial_run
  ! trial_outrun || trial_run
  progress_done "$(measure_seconds_run)"
  if [[ -n ${trial[lost]} ]]; then
    measure_lose
    return
  fi
  measure_runs+=("${trial[prefix]}.json")
  measure_save no
  measure_unreported=yes
}

# Without one client the run is void; without the machine that it was, all others
# would be.
measure_lose() {
  say "this run does not count: ${trial[lost]}"
  measure_lost+=("${trial[page]} page, ${trial[target]}, repetition ${trial[repetition]}: ${trial[lost]}")
  remote_alive || die "$remote_answer; stopping; completed runs are reported"
}

measure_set() { # <repetition> <page> <target> <scene> <seconds> <workers> <prefix>
  local most=$5
  [[ -z ${test[${measure[length]}:$4]-} ]] || most=1200
  trial=([repetition]=$1 [page]=$2 [target]=$3 [scene]=$4 [seconds]=$most [workers]=$6 [prefix]=$7
    [requests]=${test[${measure[length]}:$4]-}
    [warm]=${measure[warm]} [load]=${measure[load]} [keepalive]=${measure[keepalive]})
}

measure_seconds() { # of all, about
  local runs tuned
  runs=$(($(measure_contenders | wc -l) * $(measure_pages | wc -l) * measure[repeat]))
  tuned=$(($(measure_tuned_pages | wc -l) * $(measure_threads | wc -l)))
  echo $((runs * $(measure_seconds_run) + tuned * $(measure_seconds_try)))
}

measure_seconds_run() { echo $((measure[seconds] + measure[warm] + 5)); }
measure_seconds_try() { echo $((measure[try] + measure[warm] + 4)); }

# --- plain Apache with its best number of threads -------------------------

measure_threads() { # the numbers that are tried, one a line
  printf '%s\n' 25 50 100 "${measure[workers]}" | sort -nu
}

measure_tuned_pages() { # none where -w says how many threads
  local page
  [[ ,${measure[targets]}, == *,plain,* && -z ${measure[fixed]} ]] || return 0
  for page in $(measure_pages); do
    [[ ${test[tuned]-} != *" $page "* ]] || printf '%s\n' "$page"
  done
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
    measure_tries+=$(measure_tries_json "$page" <<<"$tried")$'\n'
  done
}

# Answers a second of a short run of all loads, in measure_rate: in a subshell
# it would outlive us, with the lock.
measure_try() { # <page> <threads>
  measure_set 0 "$1" plain "${test_scenes[0]}" "${measure[try]}" "$2" "${measure[out]}/0-$1-plain-$2"
  measure_try_once
  ! trial_outrun || measure_try_once
  [[ -z ${trial[lost]} ]] || die "${trial[lost]}"
  trial_drain
  measure_rate=$(trial_clients | jq -s 'map(.transactions / .seconds) | add')
}

measure_try_once() {
  local pids=()
  trial[lost]=''
  trial_start
  trial_warm_up
  trial_begin
  remote_used || trial_loads
  trial_wait "${trial[seconds]}" "${pids[@]}"
}

measure_best() { sort -k2,2g | sed -n '$s/ .*//p'; }    # lines "threads rate": the best one's threads

measure_tries_json() { # <page>
  jq -Rc --arg page "$1" 'select(. != "") | split(" ") | map(tonumber) | { page: $page, workers: .[0], rate: .[1] }'
}

measure_workers() { # <page> <target>
  if [[ $2 == plain ]]; then echo "${measure_tuned[$1]:-${measure[workers]}}"; else echo "${measure[workers]}"; fi
}

# --- what is kept ---------------------------------------------------------

measure_save() { # <complete: yes or no>
  (result_write "$(measure_options)" "$1" "${measure_runs[@]}") >"${measure[out]}/result.json.tmp"
  mv "${measure[out]}/result.json.tmp" "${measure[out]}/result.json"
}

measure_end() { # 1 if not all runs count
  local complete=yes
  ((${#measure_lost[@]} == 0)) || complete=no
  if ((${#measure_runs[@]})); then
    measure_save "$complete"
    measure_report
  fi
  [[ $complete == yes ]] || die "${#measure_lost[@]} runs do not count: $(printf '%s; ' "${measure_lost[@]}")"
}

measure_keep() { # interrupted: the runs that came to their end are reported
  [[ -n $measure_unreported ]] || return 0
  progress_end
  measure_report
}

measure_report() {
  measure_unreported=''
  local out=${measure[out]}
  report_print "$out/result.json" | tee "$out/report.txt"
  html_print "$out/result.json" >"$out/report.html"
  chart_png "$out/result.json" >"$out/report.png"
  say "$out: report.html, report.png, result.json and raw outputs"
}

measure_options() { # JSON
  jq -nc --arg length "${measure[length]}" --arg seconds "${measure[seconds]}" --arg repeat "${measure[repeat]}" \
    --arg keepalive "${measure[keepalive]}" --arg load "$(measure_loads)" \
    --arg mpm "${bed[mpm]}" --arg w "${measure[workers]}" --arg c "${bed[children]}" \
    --argjson docroots "$(measure_docroots)" --argjson tries "$(jq -sc . <<<"$measure_tries")" --arg command "${measure[command]-}" \
    --argjson lost "$(jq -nc '$ARGS.positional' --args "${measure_lost[@]}")" '
    { length: $length, seconds: ($seconds | tonumber), repeat: ($repeat | tonumber),
      keepalive: ($keepalive == "1"), load: $load, mpm: $mpm, workers: ($w | tonumber),
      children: ($c | tonumber), tuning: $tries, docroots: $docroots, lost: $lost, command: $command }'
}

measure_docroots() { # JSON: which folder a scene has its applications in, and on what
  local scene dir
  for scene in "${test_scenes[@]}"; do
    dir=${test[docroot:$scene]-}
    [[ -z $dir ]] || jq -nc --arg scene "$scene" --arg folder "$dir" \
      --arg filesystem "$(findmnt -fno FSTYPE -T "$dir")" '$ARGS.named'
  done | jq -sc .
}

measure_loads() { # versions of what makes the loads
  local generator
  for generator in $(test_generators "${measure[load]}"); do
    printf '%s\n' "$(load_version "$generator")"
  done | measure_listed
  ! remote_used || printf '%s\n' "${remote_hosts[@]}" | measure_listed | sed 's/^/ on /'
}

measure_listed() { paste -sd ';' | sed 's/;/, /g' | tr -d '\n'; }      # lines, as one enumerates
