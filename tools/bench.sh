#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: how sites share a server, on plain Apache and with the module:
#          installs what is missing, builds, measures, prints tables and ratios
# Usage:   bench.sh [OPTION]... [TEST]
#          bench.sh --compare A B
#   TEST              what to measure (noisy); -l lists what there is
#   --quick           a few seconds a run (3 s); the default is 25 s
#   --full            the published length: five minutes a run; insulation: one
#                     minute, all loads and schemes (about an hour)
#   --repeat N        so often, targets in turns; reported are median and spread
#                     (3; 1 with --quick and --full)
#   --target LIST     what is compared: plain, vhostlimit, and as process limits
#                     limits40, limits20 (those of the test); noisy also takes
#                     mod_qos, haproxy, process-limit
#   --page LIST       the pages: static, php, sleep (those of the test)
#   --load NAME       the load generator: siege or wrk (wrk; siege with --clients)
#   --clients LIST    the clients are these machines, host1,host2,host3 or fewer,
#                     over ssh with the keys, ports and users of ~/.ssh/config;
#                     root there, or sudo without a password. The sites' names are
#                     in their hosts files while this runs. Apache is then in this
#                     machine's own network, port 80, and has all its CPUs
#   --install         install the load generator on clients that have none
#   --server ADDRESS  of this machine, where the clients find several or none
#   --docroot DIR     where frameworks puts its applications, on any file system; may
#                     be repeated, and the report compares (/var/tmp)
#   -k                clients keep their connections alive
#   -w WORKERS        MaxRequestWorkers of Apache, a multiple of 25 (400; plain
#                     Apache's best number where the test tries several)
#   -D LINE           configuration for the module instead of the built-in one;
#                     may be repeated
#   -o DIR            where raw outputs and result.json go (results/<UTC time>)
#   -l                list the tests
#   -h                this help
#   --compare A B     puts two result folders of the same test side by side, with
#                     ratios, and says what is outside the noise
#   The table goes to stdout, everything else to stderr; the folder gets the same as
#   report.html, one file for the browser, and the main chart as report.png.
# Exit:    0 measured, or compared; 1 failed; 2 usage; 77 cannot run here (no root, a program
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
# shellcheck source-path=SCRIPTDIR source=lib/sandbox.sh
. "$here/lib/sandbox.sh"
# shellcheck source-path=SCRIPTDIR source=lib/service.sh
. "$here/lib/service.sh"
# shellcheck source-path=SCRIPTDIR source=lib/page.sh
. "$here/lib/page.sh"
# shellcheck source-path=SCRIPTDIR source=lib/test.sh
. "$here/lib/test.sh"
# shellcheck source-path=SCRIPTDIR source=lib/trial.sh
. "$here/lib/trial.sh"
# shellcheck source-path=SCRIPTDIR source=lib/rows.sh
. "$here/lib/rows.sh"
# shellcheck source-path=SCRIPTDIR source=lib/result.sh
. "$here/lib/result.sh"
# shellcheck source-path=SCRIPTDIR source=lib/report.sh
. "$here/lib/report.sh"
# shellcheck source-path=SCRIPTDIR source=lib/chart.sh
. "$here/lib/chart.sh"
# shellcheck source-path=SCRIPTDIR source=lib/html.sh
. "$here/lib/html.sh"
# shellcheck source-path=SCRIPTDIR source=lib/compare.sh
. "$here/lib/compare.sh"
# shellcheck source-path=SCRIPTDIR source=lib/measure.sh
. "$here/lib/measure.sh"

declare -A option=([length]=default [repeat]='' [targets]='' [pages]='' [load]=''
  [compare]=0 [keepalive]=0 [lines]='' [out]='' [docroots]='' [workers]='' [clients]='')

parse() {
  local words
  words=$(getopt -n "$prog" -o hlkw:D:o: -l help,quick,full,repeat:,target:,page:,load:,clients:,install,server:,compare,docroot: -- "$@") || usage 2
  eval "set -- $words"
  while [[ $1 != -- ]]; do
    case $1 in
      -h | --help) usage 0 ;;
      -l) test_list; exit 0 ;;
      --quick | --full) option[length]=${1#--}; shift ;;
      --compare) option[compare]=1; shift ;;
      -k) option[keepalive]=1; shift ;;
      --repeat) option[repeat]=$2; shift 2 ;;
      --target) option[targets]=$2; shift 2 ;;
      --page) option[pages]=$2; shift 2 ;;
      --load) option[load]=$2; shift 2 ;;
      --clients) option[clients]=${2:-,}; shift 2 ;;
      --install) remote_install=yes; shift ;;
      --server) remote_server=$2; shift 2 ;;
      -w) option[workers]=$2; shift 2 ;;
      -D) option[lines]+=${option[lines]:+$'\n'}$2; shift 2 ;;
      --docroot) option[docroots]+=${option[docroots]:+$'\n'}$2; shift 2 ;;
      -o) option[out]=$2; shift 2 ;;
    esac
  done
  shift
  ((! option[compare])) || compare "$@"
  (($# <= 1)) || misuse "one test at a time, not '$*'"
  test_known "${1-noisy}" || misuse "unknown test '$1' (see -l)"
  test_read "${1-noisy}"
  check_values
}

compare() { # <folder A> <folder B>: and no more
  (($# == 2)) || misuse "--compare takes two folders of results, not $#"
  need jq
  compare_print "$@"
  exit 0
}

check_values() {
  local word
  check_docroots
  for word in ${option[targets]//,/ }; do
    target_known "$word" || misuse "--target: '$word' is not one of ${target_kinds[*]}"
    test_takes_target "$word" ||
      misuse "--target: the test ${test[name]} is not made for $word"
  done
  for word in ${option[pages]//,/ }; do
    page_known "$word" || misuse "--page: '$word' is not one of ${page_kinds[*]}"
    [[ ${test[pages]} != mixed ]] || misuse "--page: the test ${test[name]} has its own pages"
    check_application "$word"
  done
  check_clients
  check_load
  [[ ${option[repeat]:-1} =~ ^[1-9][0-9]?$ ]] || misuse "--repeat: '${option[repeat]}' is not a whole number from 1 to 99"
  [[ ${option[workers]:-25} =~ ^([1-9][0-9]{0,2})?(00|25|50|75)$ && ${option[workers]} != 00 ]] ||
    misuse "-w: '${option[workers]}' is not a multiple of 25"
  [[ ! ${option[targets]}${option[pages]} =~ ^,+|,, ]] || misuse "--target and --page need at least one name"
}

check_application() { # <page>: those of packages belong to the test that sets them up
  local is=no of=no
  ! app_known "$1" || is=yes
  [[ ${test[name]} != frameworks ]] || of=yes
  [[ $is == "$of" ]] || misuse "--page: the test ${test[name]} has no page $1"
}

check_clients() {
  local host
  if [[ -z ${option[clients]} ]]; then
    [[ $remote_install == no && -z $remote_server ]] || misuse "--install and --server go with --clients"
  else
    IFS=, read -ra remote_hosts <<<"${option[clients]}"
    ((${#remote_hosts[@]} <= ${#bed_clients[@]})) || misuse "--clients: ${#bed_clients[@]} at most"
    for host in "${remote_hosts[@]}"; do
      remote_host_known "$host" || misuse "--clients: '$host' is no host's name"
    done
  fi
}

check_load() {
  local own
  own=$(test_made_with)
  [[ -z ${option[load]} ]] || test_takes_load || misuse "--load: the test ${test[name]} is made with $own"
  option[load]=${option[load]:-$(remote_used && echo siege || echo wrk)}
  load_known "${option[load]}" || misuse "--load: '${option[load]}' is not one of ${load_kinds[*]}"
}

check_docroots() {
  local dir
  [[ -z ${option[docroots]} || ${test[name]} == frameworks ]] || misuse "--docroot: the test ${test[name]} has no applications"
  while read -r dir; do
    [[ -z $dir || -d $dir && $dir == /* ]] || misuse "--docroot: '$dir' is not the full path of a folder"
  done <<<"${option[docroots]}"
}

# What to measure, from the options and the test's description.
settle() {
  local seconds warm try repeat
  read -r seconds warm try repeat < <(lengths)
  [[ -z ${option[lines]} ]] || target_vhostlimit_lines=${option[lines]}
  [[ -z ${test[children]-} ]] || bed[children]=${test[children]}
  [[ -z ${test[pools]-} ]] || bed[pools]=${test[pools]}
  bed[modules]=${test[modules]-}
  ! remote_used || settle_remote
  measure=([command]=${option[command]} [out]=${option[out]} [load]=${option[load]} [length]=${option[length]} [seconds]=$seconds [warm]=$warm
    [try]=$try [repeat]=${option[repeat]:-$repeat} [keepalive]=${test[keepalive]:-${option[keepalive]}}
    [targets]=${option[targets]:-${test[targets]}} [pages]=${option[pages]:-${test[pages]}}
    [workers]=${option[workers]:-${bed[workers]}} [fixed]=${option[workers]})
}

settle_remote() {
  bed[network]=host
  cpu_clients_here=no
}

lengths() { # seconds of a run, of its warm-up, of a try of plain Apache; repetitions
  case ${option[length]} in quick) echo 3 1 1 1 ;; full) echo "${test[full]-300}" 10 10 1 ;; *) echo 25 2 3 3 ;; esac
}

prepare_module() {
  say "building"
  # shellcheck disable=SC2119  # with configure's defaults
  build_module
}

prepare() {
  local target service generators needs
  mapfile -t generators < <(test_generators "${option[load]}")
  # shellcheck disable=SC2086  # names
  mapfile -t needs < <(load_packages "${generators[@]}" && test_packages && target_packages ${measure[targets]//,/ } &&
    service_packages ${test[needs]-})
  need_files "$(test_files_most)"
  # shellcheck disable=SC2086  # roles
  packages_install compiler make autotools libtool pkgconfig apxs httpd mime cgroup php \
    network sysctl util curl jq sar gnuplot fonts "${needs[@]}" ${test[modules]-}
  ! measure_has_module || prepare_module
  mkdir -p "${measure[out]}"
  bed_lock
  on_exit bed_down
  ! remote_used || on_exit remote_down
  on_exit progress_end
  say "setting up the test bed"
  bed_up
  if remote_used; then remote_reach; else load_prepare "${measure[keepalive]}" "${generators[@]}"; fi
  for target in ${measure[targets]//,/ }; do target_prepare "$target"; done
  for service in ${test[needs]-}; do service_prepare "$service"; done
  # shellcheck disable=SC2046  # names
  service_apps $(measure_pages)
}

main() {
  parse "$@"
  option[command]=$(bed_command tools/bench.sh "$@")
  need_root
  [[ -n ${option[out]} ]] || option[out]=$(in_tree "results/$(date -u +%Y%m%dT%H%M%SZ)")
  settle
  prepare
  measure_all
  measure_end
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
