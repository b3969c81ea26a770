#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: how one site fares beside a flooded one, on plain Apache and with
#          the module: installs what is missing, builds, measures, prints a table
# Usage:   bench.sh [OPTION]... [TEST]
#   TEST              what to measure (noisy); -l lists what there is
#   --quick           a few seconds a run (3 s); the default is 25 s
#   --full            the published length: five minutes a run
#   --target LIST     what is compared (plain,vhostlimit)
#   --page LIST       the pages (static,php)
#   --load NAME       the load generator: siege or wrk (siege)
#   -k                clients keep their connections alive
#   -w WORKERS        MaxRequestWorkers of Apache, a multiple of 25 (400)
#   -D LINE           configuration for the module instead of the built-in one;
#                     may be repeated
#   -o DIR            where raw outputs and result.json go (results/<UTC time>)
#   -l                list the tests
#   -h                this help
#   The table goes to stdout, everything else to stderr.
# Exit:    0 measured; 1 failed; 2 usage; 77 cannot run here (no root, a program
#          missing and not installable, port taken, too few file descriptors);
#          130, 143 signals, after everything is undone

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$here/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/bed.sh
. "$here/lib/bed.sh"
# shellcheck source-path=SCRIPTDIR source=lib/packages.sh
. "$here/lib/packages.sh"
# shellcheck source-path=SCRIPTDIR source=lib/build.sh
. "$here/lib/build.sh"
# shellcheck source-path=SCRIPTDIR source=lib/progress.sh
. "$here/lib/progress.sh"
# shellcheck source-path=SCRIPTDIR source=lib/load.sh
. "$here/lib/load.sh"
# shellcheck source-path=SCRIPTDIR source=lib/sar.sh
. "$here/lib/sar.sh"
# shellcheck source-path=SCRIPTDIR source=lib/target.sh
. "$here/lib/target.sh"
# shellcheck source-path=SCRIPTDIR source=lib/noisy.sh
. "$here/lib/noisy.sh"
# shellcheck source-path=SCRIPTDIR source=lib/result.sh
. "$here/lib/result.sh"
# shellcheck source-path=SCRIPTDIR source=lib/report.sh
. "$here/lib/report.sh"

declare -A option=([length]=default [targets]='plain,vhostlimit' [pages]='static,php' [load]=siege
  [keepalive]=0 [lines]='' [out]='')

parse() {
  local words
  words=$(getopt -n "$prog" -o hlkw:D:o: -l help,quick,full,target:,page:,load: -- "$@") || usage 2
  eval "set -- $words"
  while [[ $1 != -- ]]; do
    case $1 in
      -h | --help) usage 0 ;;
      -l) list_tests; exit 0 ;;
      --quick | --full) option[length]=${1#--}; shift ;;
      -k) option[keepalive]=1; shift ;;
      --target) option[targets]=$2; shift 2 ;;
      --page) option[pages]=$2; shift 2 ;;
      --load) option[load]=$2; shift 2 ;;
      -w) bed[workers]=$2; shift 2 ;;
      -D) option[lines]+=${option[lines]:+$'\n'}$2; shift 2 ;;
      -o) option[out]=$2; shift 2 ;;
    esac
  done
  shift
  (($# <= 1)) || misuse "one test at a time, not '$*'"
  [[ ${1-noisy} == noisy ]] || misuse "unknown test '$1' (see -l)"
  check_values
}

check_values() {
  local word
  for word in ${option[targets]//,/ }; do
    target_known "$word" || misuse "--target: '$word' is not one of ${target_kinds[*]}"
  done
  for word in ${option[pages]//,/ }; do
    [[ -n $(noisy_path "$word") ]] || misuse "--page: '$word' is not one of static php"
  done
  load_known "${option[load]}" || misuse "--load: '${option[load]}' is not one of ${load_kinds[*]}"
  [[ ${bed[workers]} =~ ^([1-9][0-9]{0,2})?(00|25|50|75)$ && ${bed[workers]} != 00 ]] ||
    misuse "-w: '${bed[workers]}' is not a multiple of 25"
  [[ -z ${option[lines]} ]] || target_vhostlimit_lines=${option[lines]}
  [[ -n ${option[targets]} && -n ${option[pages]} ]] || misuse "--target and --page need at least one name"
}

list_tests() {
  printf 'noisy\t100 users on one site beside 2 x 500 on its neighbour, static and PHP pages\n'
}

lengths() { # seconds of a run and of its warm-up
  case ${option[length]} in quick) echo 3 1 ;; full) echo 300 10 ;; *) echo 25 2 ;; esac
}

prepare_module() {
  say "building"
  # shellcheck disable=SC2119  # with configure's defaults
  build_module
}

prepare() {
  need_files "$(($(noisy_users_most) + 100))"
  packages_install compiler make autotools libtool pkgconfig apxs httpd mime cgroup php \
    network sysctl util curl jq sar "${option[load]}"
  [[ ,${option[targets]}, != *,vhostlimit,* ]] || prepare_module
  mkdir -p "${option[out]}"
  bed_lock
  on_exit bed_down
  on_exit progress_end
  say "setting up the test bed"
  bed_up
  load_prepare "${option[load]}"
}

measure() {
  local seconds warm page target name runs=() targets pages
  read -r seconds warm < <(lengths)
  IFS=, read -ra targets <<<"${option[targets]}"
  IFS=, read -ra pages <<<"${option[pages]}"
  progress_begin "$((${#targets[@]} * ${#pages[@]} * (seconds + warm + 3)))"
  for page in "${pages[@]}"; do
    for target in "${targets[@]}"; do
      progress_step "$page page on $(target_title "$target")"
      name=${option[out]}/$page-$target
      target_start "$target"
      noisy_run "${option[load]}" "$page" "$target" "$seconds" "$warm" "${option[keepalive]}" "$name"
      cp "$bed_dir/httpd.conf" "$name.conf"
      cp "$bed_dir/httpd.log" "$name.log"
      runs+=("$name.json")
    done
  done
  progress_end
  result_write "$(options_json "$seconds")" "${runs[@]}" >"${option[out]}/result.json.tmp"
  mv "${option[out]}/result.json.tmp" "${option[out]}/result.json"
}

options_json() { # <seconds>
  jq -nc --arg length "${option[length]}" --arg seconds "$1" --arg keepalive "${option[keepalive]}" \
    --arg load "$(load_version "${option[load]}")" --arg mpm "${bed[mpm]}" --arg w "${bed[workers]}" \
    --arg c "${bed[children]}" --arg lines "$(target_lines vhostlimit)" \
    --arg users '100 users on site1 (the victim), 2 x 500 on site2' '
    { length: $length, seconds: ($seconds | tonumber), keepalive: ($keepalive == "1"), load: $load,
      mpm: $mpm, workers: ($w | tonumber), children: ($c | tonumber), configuration: $lines, users: $users }'
}

main() {
  parse "$@"
  need_root
  [[ -n ${option[out]} ]] || option[out]=$(in_tree "results/$(date -u +%Y%m%dT%H%M%SZ)")
  prepare
  measure
  report_print "${option[out]}/result.json" | tee "${option[out]}/report.txt"
  say "raw outputs and result.json: ${option[out]}"
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
