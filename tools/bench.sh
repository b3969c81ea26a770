#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: measure how sites share one Apache server, without and with the module:
#          installs missing packages, builds, runs the loads, prints tables and ratios
# Usage:   bench.sh [OPTION]... [TEST]
#   TEST              what to measure (noisy); -l lists the tests
#   --quick           3 seconds a run, one repetition: shows that everything works; its
#                     figures are not a measurement. The default is 25 seconds a run and
#                     three repetitions, about seven minutes for noisy. A run of overload
#                     takes 60 seconds, 15 with --quick
#   --full            publishable length: five minutes a run, three repetitions, about
#                     65 minutes for noisy
#   --seconds N       N seconds a run instead, from 1 to 3600
#   --repeat N        run N times, alternating targets; median and range are reported
#                     (3; 10 for isolation; 1 with --quick)
#   --strict          exit 1 if a row misses its bar
#   --keep-noisy      count disturbed runs too. Without this option such a run is void: it
#                     is repeated, at most twice, and no median includes it. A run is void
#                     if more than 10 % of the CPU time of the server or of the clients
#                     was steal, if other processes used more than 10 %, if the clients'
#                     CPUs were full while the server's was idle, if the machine stalled,
#                     or if its rate is below a fifth of the median of the same runs
#   --target LIST     what is compared: plain, vhostlimit; plain-best, which is plain
#                     Apache with the number of threads that was fastest in short runs
#                     with 25, 50, 100, WORKERS and 1200 (default: the test's); noisy also
#                     takes mod_qos, haproxy and process-limit, and overload takes haproxy,
#                     database user-connections, isolation mod_qos, haproxy and nginx
#   --page LIST       the pages: static, php, sleep (default: the test's)
#   --load NAME       the load generator: siege or wrk (wrk; siege with --clients)
#   --clients LIST    generate the load on up to three other machines, host1,host2,host3,
#                     over ssh with the keys, ports and users of ~/.ssh/config, as root
#                     or with sudo without a password. The run adds the sites' names to
#                     their hosts files and removes them at its end. Apache listens on
#                     port 80 of this machine's own network and has all its CPUs; only
#                     this machine and the clients get its pages, any other address gets
#                     403. Not for tests that need addresses of the test bed's clients
#   --install         install the load generator on clients that lack it
#   --server ADDRESS  address that the clients use to reach this machine; needed if they
#                     see several addresses, or one that is not its own
#   -k                clients keep their connections alive
#   --server-cpus N   the server has N CPUs of this machine, the load generators the
#                     others (1)
#   --awake           an idle CPU of this machine polls in place of sleeping, so that the
#                     server does not pay for waking the CPU of the load generators, as
#                     it does not with clients on other machines (/dev/cpu_dma_latency)
#   -w WORKERS        MaxRequestWorkers of Apache, a multiple of 25 (400)
#   -D LINE           configure the module with this line instead of the default; may be
#                     repeated
#   -o DIR            folder for raw outputs and result.json (results/<UTC time>)
#   -l                list the tests
#   -h, --help        this help
#   --version         the version
#   The module is built from this checkout with the default flags in the folder
#   .bench-build, however the checkout itself is configured; result.json has the commit,
#   the flags and the module's SHA-256.
#   The table goes to stdout, all other messages to stderr. The result folder gets the
#   table, and of a test that shows the targets side by side table.md.
# Exit:    0 measured; also if void runs left gaps, which the report names;
#          1 with --strict: a row missed its bar; 2 usage; 3 failed, a client was lost,
#          or with --strict a bar could not be judged; 77 cannot run, and the message
#          says why: not root, a program is missing and cannot be installed, a port is
#          taken, too few file descriptors, another tool uses the test bed;
#          130, 143 signals, after everything is undone

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/bed.sh"
. "$here/lib/packages.sh"
. "$here/lib/build.sh"
. "$here/lib/progress.sh"
. "$here/lib/load.sh"
. "$here/lib/sar.sh"
. "$here/lib/target.sh"
. "$here/lib/sandbox.sh"
. "$here/lib/page.sh"
. "$here/lib/test.sh"
. "$here/lib/trial.sh"
. "$here/lib/trial-fleet.sh"
. "$here/lib/rows.sh"
. "$here/lib/result.sh"
. "$here/lib/report.sh"
. "$here/lib/measure.sh"

declare -A option=([length]=default [seconds]='' [repeat]='' [targets]='' [pages]='' [load]='' [strict]=no [noisy]=void
  [install]=no [server]='' [keepalive]=0 [lines]='' [out]='' [workers]='' [cpus]='' [awake]=no [clients]='')

parse() {
  parse_options lkw:D:o: quick,full,strict,keep-noisy,seconds:,repeat:,target:,page:,load:,clients:,install,server:,server-cpus:,awake "$@"
  set -- "${words[@]}"
  [[ ! -v given[-l] ]] || { test_list; exit 0; }
  [[ ! -v given[--quick] ]] || option[length]=quick
  [[ ! -v given[--full] ]] || option[length]=full
  [[ ! -v given[--keep-noisy] ]] || option[noisy]=keep
  [[ ! -v given[-k] ]] || option[keepalive]=1
  [[ ! -v given[--clients] ]] || option[clients]=${given[--clients]:-,}
  option+=([seconds]=${given[--seconds]-} [repeat]=${given[--repeat]-} [targets]=${given[--target]-} [pages]=${given[--page]-}
    [load]=${given[--load]-} [strict]=${given[--strict]-no} [install]=${given[--install]-no} [server]=${given[--server]-}
    [lines]=${given_all[-D]-} [out]=${given[-o]-} [workers]=${given[-w]-} [cpus]=${given[--server-cpus]-} [awake]=${given[--awake]-no})
  (($# <= 1)) || misuse "expected one test, got $#: $*"
  test_known "${1-noisy}" || misuse "unknown test '$1' (-l lists the tests)"
  test_read "${1-noisy}" keepalive="${option[keepalive]}" length="${option[length]}"
  check_values
}

check_values() {
  local word
  for word in ${option[targets]//,/ }; do
    target_known "$word" || misuse "--target: '$word' is not one of ${target_kinds[*]}"
    test_takes_target "$word" ||
      misuse "--target: the test ${test[name]} cannot run $word"
  done
  for word in ${option[pages]//,/ }; do
    page_known "$word" || misuse "--page: '$word' is not one of ${page_kinds[*]}"
    [[ ${test[pages]} != mixed ]] || misuse "--page: the test ${test[name]} has its own pages"
  done
  check_clients
  [[ -z ${option[load]} ]] || test_takes_load || misuse "--load: the test ${test[name]} always uses $(test_made_with)"
  option[load]=${option[load]:-$(remote_used && echo siege || echo wrk)}
  load_known "${option[load]}" || misuse "--load: '${option[load]}' is not one of ${load_kinds[*]}"
  [[ ${option[seconds]:-1} =~ ^[1-9][0-9]{0,3}$ && ${option[seconds]:-1} -le 3600 ]] ||
    misuse "--seconds: '${option[seconds]}' is not a whole number from 1 to 3600"
  [[ ${option[repeat]:-1} =~ ^[1-9][0-9]?$ ]] || misuse "--repeat: '${option[repeat]}' is not a whole number from 1 to 99"
  [[ ${option[workers]:-25} =~ ^([1-9][0-9]{0,2})?(00|25|50|75)$ && ${option[workers]} != 00 ]] ||
    misuse "-w: '${option[workers]}' is not a multiple of 25"
  [[ ! ${option[targets]}${option[pages]} =~ ^,+|,, ]] || misuse "--target and --page need at least one name"
}

check_clients() {
  local host
  if [[ -z ${option[clients]} ]]; then
    [[ ${option[cpus]:-1} =~ ^[1-9][0-9]{0,2}$ ]] || misuse "--server-cpus: '${option[cpus]}' is not a whole number from 1 to 999"
    [[ ${option[install]} == no && -z ${option[server]} ]] || misuse "--install and --server are valid with --clients only"
  else
    [[ -z ${test[local]-} ]] || misuse "--clients: the test ${test[name]} needs the clients of the test bed: ${test[local]}"
    [[ -z ${option[cpus]} ]] || misuse "--server-cpus: with --clients the server has all CPUs of this machine"
    [[ ${option[awake]} == no ]] || misuse "--awake: with --clients no load generator runs on this machine"
    IFS=, read -ra remote_hosts <<<"${option[clients]}"
    ((${#remote_hosts[@]} <= ${#bed_clients[@]})) || misuse "--clients: at most ${#bed_clients[@]} hosts"
    for host in "${remote_hosts[@]}"; do
      remote_host_known "$host" || misuse "--clients: '$host' is not a host name"
    done
  fi
}

# Sets what is measured, from the options and the test's description.
resolve_options() {
  local seconds warm try repeat
  read -r seconds warm try repeat < <(lengths)
  target_configure "${option[lines]}"
  bed_set sites="${test[sites]:-3}" children="${test[children]:-${bed[children]}}" pools="${test[pools:-]:-${bed[pools]}}" modules="${test[modules]-}" fleet="${test[fleet]-1}"
  [[ -z ${option[cpus]} ]] || ((option[cpus] < $(cpu_list | wc -l))) ||
    cannot "--server-cpus ${option[cpus]}: this machine has $(cpu_list | wc -l) CPUs, and the load generators need one of them"
  cpu_give_server "${option[cpus]:-1}"
  [[ ${option[awake]} == no ]] || cpu_stay_awake || cannot "--awake: the kernel has no idle state that polls, or no /dev/cpu_dma_latency"
  if remote_used; then
    bed_set network=host
    cpu_clients_elsewhere
  fi
  measure_plan command="${option[command]}" out="${option[out]}" load="${option[load]}" length="${option[length]}" \
    seconds="$seconds" warm="$warm" try="$try" repeat="${option[repeat]:-$repeat}" \
    keepalive="${test[keepalive:-]:-${option[keepalive]}}" targets="${option[targets]:-${test[targets]}}" \
    pages="${option[pages]:-${test[pages]}}" workers="${option[workers]:-${bed[workers]}}" \
    strict="${option[strict]}" noisy="${option[noisy]}"
}

lengths() { # seconds of a run, of its warm-up, of a try of plain Apache; repetitions
  local seconds=${option[seconds]}
  case ${option[length]} in
    quick) echo "${seconds:-${test[quick]:-3}}" 1 1 1 ;;
    full) echo "${seconds:-${test[full]:-300}}" 10 10 "${test[repeat]:-3}" ;;
    *) echo "${seconds:-${test[default]:-25}}" 2 3 "${test[repeat]:-3}" ;;
  esac
}

prepare() {
  local target generators needs
  mapfile -t generators < <(test_generators "${option[load]}")
  # shellcheck disable=SC2086  # names
  mapfile -t needs < <(load_packages "${generators[@]}" && test_packages && target_packages ${measure[targets]//,/ })
  need_files "$(test_files_most)"
  # shellcheck disable=SC2086  # roles
  packages_install compiler make autotools libtool pkgconfig apxs httpd mime cgroup php \
    network services sysctl util curl jq sar "${needs[@]}" ${test[modules]-}
  mkdir -p "${measure[out]}"
  if measure_has_module; then
    say "building the module with the default flags"
    ! fleet_used || build_bench_fleet
    build_bench "${measure[out]}/mod_vhostlimit.so"
  fi
  bed_lock
  on_exit bed_down
  ! remote_used || on_exit remote_down
  on_exit progress_end
  say "setting up the test bed"
  ! remote_used || remote_set "${option[install]}" "${option[server]}" "${measure[keepalive]}" "${generators[@]}"
  bed_up
  ! measure_has_module || bed_load "${measure[out]}/mod_vhostlimit.so"
  ! fleet_used || fleet_load "${measure[out]}"
  if remote_used; then remote_reach; else load_prepare "${measure[keepalive]}" "${generators[@]}"; fi
  for target in ${measure[targets]//,/ }; do target_prepare "$target"; done
}

main() {
  failure_status=3
  on_exit :                     # from here on, failures end with 3
  parse "$@"
  option[command]=$(bed_command tools/bench.sh "$@")
  need_root
  [[ -n ${option[out]} ]] || option[out]=$(in_tree "results/$(date -u +%Y%m%dT%H%M%SZ)")
  resolve_options
  prepare
  measure_all
  measure_end
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
