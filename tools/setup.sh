#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: create or remove the test bed: an Apache with three sites and PHP-FPM, and
#          three clients, each in a network namespace of its own
# Usage:   setup.sh up [OPTION]...
#          setup.sh down|status
#   -L           load mod_lua, for burn.lua?ms=N
#   -M           load the module built in this tree (after configure and make); its path
#                and SHA-256 are printed
#   -P           run a PHP-FPM for each site; with -M it runs in the site's cgroup
#   -T           serve the sites over TLS and HTTP/2 (https, port 443) only
#   -D LINE      add a line to Apache's configuration; may be repeated
#   -m MPM       event, worker or prefork (event)
#   -w WORKERS   MaxRequestWorkers; for event and worker a multiple of 25 (400)
#   -p CHILDREN  PHP-FPM children (10); with -P for each site
#   -h, --help   this help
#   --version    the version
#   Example: ip netns exec vl-client1 curl http://site1.test/
#   Pages: / (static) and info.php; burn.php?ms=N and burn.cgi?ms=N use N ms of CPU
#   time, sleep.php?ms=N and sleep.cgi?ms=N sleep N ms, burn.lua?ms=N uses about N ms
#   of CPU time in Apache's own thread.
#   Status page: nsenter --net=/run/netns/vl-server curl http://127.0.0.1:8081/server-status
# Exit:    0 done, or the bed is up; 1 failed, or `status` of a bed that is not up;
#          2 usage; 77 cannot run, and the message says why: not root, a program is
#          missing, a port is taken, another tool uses the bed; 130, 143 signals

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/bed.sh"

parse() { # leaves the command in command, and the rest in arguments
  local with
  parse_options LMPTD:m:w:p: '' "$@"
  set -- "${words[@]}"
  with=${!given[*]}
  [[ ! -v given[-L] ]] || bed_set modules=lua
  [[ ! -v given[-M] ]] || bed_set module=on
  [[ ! -v given[-P] ]] || bed_set pools=own
  [[ ! -v given[-T] ]] || bed_set tls=on
  bed_set extra="${given_all[-D]-}" mpm="${given[-m]-${bed[mpm]}}" workers="${given[-w]-${bed[workers]}}" \
    children="${given[-p]-${bed[children]}}"
  command=${1-}
  case $command in
    up) check_values ;;
    down | status) [[ -z $with ]] || misuse "${with%% *} is valid with up only" ;;
    '') misuse "missing command: up, down or status" ;;
    *) misuse "unknown command '$1'" ;;
  esac
  (($# == 1)) || misuse "unexpected argument '$2'"
}

check_values() {
  [[ ${bed[mpm]} =~ ^(event|worker|prefork)$ ]] || misuse "-m: '${bed[mpm]}' is not event, worker or prefork"
  [[ ${bed[workers]} =~ ^[1-9][0-9]{0,4}$ ]] || misuse "-w: '${bed[workers]}' is not a whole number from 1 to 99999"
  [[ ${bed[mpm]} == prefork ]] || ((bed[workers] % 25 == 0)) || misuse "-w: '${bed[workers]}' is not a multiple of 25"
  [[ ${bed[children]} =~ ^[1-9][0-9]{0,3}$ ]] || misuse "-p: '${bed[children]}' is not a whole number from 1 to 9999"
}

give_up() { # undoes a start that was interrupted or failed
  [[ -n $up_done ]] || bed_down
}

cmd_up() {
  need_root
  if [[ ${bed[module]} == on ]]; then
    [[ -e $bed_module_file ]] || cannot "$bed_module_file is not built; run ./autogen.sh && ./configure && make"
    # Part of the settings, so that "up" after a new build loads the new module.
    bed_set build="$(sha256sum "$bed_module_file" | cut -d ' ' -f 1)"
    say "the module is $bed_module_file, SHA-256 ${bed[build]}"
  fi
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
  need_root
  need ip findmnt flock
  bed_lock
  bed_down
}

cmd_status() {
  need_root
  bed_report
  bed_healthy
}

main() {
  local command
  parse "$@"
  "cmd_$command"
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
