#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: make or remove the three-vhost test bed: one Apache with PHP-FPM and
#          three clients, each a host of its own in a network namespace
# Usage:   setup.sh [-h] up [-LMPT] [-D LINE]... [-m MPM] [-w WORKERS] [-p CHILDREN] [-F FRONT]
#          setup.sh [-h] down|status
#   -L           load mod_lua too, for burn.lua?ms=N
#   -M           load the module from the build tree (conf/testbed/vhostlimit.conf.in)
#   -P           a PHP-FPM of its own for each site, with -M in the site's cgroup
#   -T           the sites over TLS and HTTP/2 (https, port 443), not in clear
#   -D LINE      one more line for Apache's configuration; may be repeated
#   -m MPM       event, worker or prefork (event)
#   -w WORKERS   MaxRequestWorkers, a multiple of 25 for event and worker (400)
#   -p CHILDREN  PHP-FPM children (10); with -P of each site
#   -F FRONT     an HAProxy before Apache: keepalive (plain, its connections carry
#                requests of all sites) or proxy (PROXY protocol, version 2)
#   -h           this help
#   Then, for example: ip netns exec vl-client1 curl http://site1.test/
#   Pages: / (static), info.php, and burn.php?ms=N, sleep.php?ms=N, burn.cgi?ms=N,
#   sleep.cgi?ms=N, which burn N ms of CPU time or sleep as long; burn.lua?ms=N
#   burns about that in Apache's own thread
#   The status pages: nsenter --net=/run/netns/vl-server curl http://127.0.0.1:8081/server-status
# Exit:    0 done, or up; 1 failed, or status of a bed that is not up; 2 usage;
#          77 cannot run here (no root, a program missing, port taken); 130, 143 signals

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$here/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/bed.sh
. "$here/lib/bed.sh"

parse_up() {
  local opt
  OPTIND=1
  while getopts ':hLMPTD:m:w:p:F:' opt; do
    case $opt in
      h) usage 0 ;;
      L) bed[modules]=lua ;;
      M) bed[module]=on ;;
      P) bed[pools]=own ;;
      T) bed[tls]=on ;;
      D) bed[extra]+=$OPTARG$'\n' ;;
      m) bed[mpm]=$OPTARG ;;
      w) bed[workers]=$OPTARG ;;
      p) bed[children]=$OPTARG ;;
      F) bed[front]=$OPTARG ;;
      :) misuse "-$OPTARG needs a value" ;;
      *) misuse "unknown option -$OPTARG" ;;
    esac
  done
  shift $((OPTIND - 1))
  (($# == 0)) || misuse "unexpected argument '$1'"
  [[ ${bed[mpm]} =~ ^(event|worker|prefork)$ ]] || misuse "-m: '${bed[mpm]}' is not event, worker or prefork"
  [[ ${bed[workers]} =~ ^[1-9][0-9]{0,4}$ ]] || misuse "-w: '${bed[workers]}' is not a whole number from 1 to 99999"
  [[ ${bed[mpm]} == prefork ]] || ((bed[workers] % 25 == 0)) || misuse "-w: '${bed[workers]}' is not a multiple of 25"
  [[ ${bed[children]} =~ ^[1-9][0-9]{0,3}$ ]] || misuse "-p: '${bed[children]}' is not a whole number from 1 to 9999"
  bed_front_known "${bed[front]}" || misuse "-F: '${bed[front]}' is not none, keepalive or proxy"
  [[ ${bed[front]} == none || ${bed[tls]} == off ]] || misuse "-F and -T: the front speaks no TLS"
}

give_up() { # the undo of a start that did not get to its end
  [[ -n $up_done ]] || bed_down
}

cmd_up() {
  parse_up "$@"
  need_root
  need ip nsenter taskset flock findmnt ss curl
  [[ ${bed[tls]} == off ]] || need openssl
  bed_lock
  if bed_same && bed_healthy; then
    say "the test bed is up already"
    return
  fi
  up_done=
  on_exit give_up
  bed_up
  up_done=yes
}

cmd_down() {
  (($# == 0)) || misuse "unexpected argument '$1'"
  need_root
  need ip findmnt flock
  bed_lock
  bed_down
}

cmd_status() {
  (($# == 0)) || misuse "unexpected argument '$1'"
  need_root
  bed_report
  bed_healthy
}

main() {
  case ${1-} in
    up | down | status) "cmd_$1" "${@:2}" ;;
    -h) usage 0 ;;
    -*) misuse "unknown option $1" ;;
    '') misuse "what shall be done? up, down or status" ;;
    *) misuse "unknown command '$1'" ;;
  esac
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
