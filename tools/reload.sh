#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: print what a configuration test, a start and a graceful restart cost with many
#          virtual hosts, without and with the module
# Usage:   reload.sh [-n VHOSTS]
#   -n VHOSTS   how many virtual hosts, from 100 to 50000 (10000)
#   -h, --help  this help
#   --version   the version
#   CPU time is that of httpd -t, of the parent process until it serves, and of the parent
#   process during the restart. The wait is the longest of new connections, one every 5 ms,
#   from connect() to the end of the response. Memory is the proportional set size of the
#   parent process and of its largest child process. With the module, all sites are in
#   cgroups. The module has to be built (./autogen.sh && ./configure && make).
# Exit:    0 printed; 1 failed; 2 usage; 77 cannot run: not root, or the module is not built

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/httpd.sh"
. "$here/lib/poll.sh"

vhosts=10000
port=8989
folder=

pid()     { cat "$folder/httpd.pid" 2>/dev/null; }
has_ended() { ! kill -0 "$1" 2>/dev/null; }
answers() { curl -so "$folder/answer" -H 'Host: s1.test' "http://127.0.0.1:$port/"; }
generations() { grep -c 'resuming normal operations' "$folder/error.log"; }

stop_server() {
  local pid
  pid=$(pid) && kill "$pid" 2>/dev/null || return 0
  poll_until 120 has_ended "$pid"
}

clean_up() {
  stop_server || :
  rm -rf "$folder"
}

cpu() { # ms of user and system time of the parent process
  sed 's/.*) //' "/proc/$(pid)/stat" | awk -v hz="$(getconf CLK_TCK)" '{ print int(($12 + $13) * 1000 / hz) }'
}

set_size() { awk '/^Pss:/ { print $2 }' "/proc/$1/smaps_rollup" 2>/dev/null; }   # <pid>: KB

largest_child() {
  local child
  for child in $(pgrep -P "$(pid)" -x "$(basename "$(httpd_binary)")"); do set_size "$child"; done | sort -n | tail -1
}

configure() { # <plain or module>
  local binary user
  binary=$(httpd_binary)
  user=$(httpd_user)
  {
    printf '%s\n' "ServerRoot $folder" "DefaultRuntimeDir $folder" "PidFile $folder/httpd.pid" "Listen 127.0.0.1:$port"
    httpd_load_lines "$binary" mpm_event unixd authz_core dir reqtimeout
    [[ $1 == plain ]] || printf '%s\n' "LoadModule vhostlimit_module $(in_tree mod_vhostlimit/.libs/mod_vhostlimit.so)" \
      'VhostLimit On' 'VhostLimitCgroup /vhostlimit-reload'
    printf '%s\n' "User $user" "Group $(id -gn "$user")" 'ServerName main.test' "ErrorLog $folder/error.log" \
      'LogLevel notice' 'StartServers 2' 'ThreadsPerChild 25' 'MaxRequestWorkers 100' 'DirectoryIndex index.html'
    seq "$vhosts" | sed "s|.*|<VirtualHost 127.0.0.1:$port>\nServerName s&.test\nDocumentRoot $folder/www\n</VirtualHost>|"
  } >"$folder/httpd.conf"
  : >"$folder/error.log"
}

measure() { # <plain or module>: a line of the table
  local binary test start before wait probe n TIMEFORMAT='%U %S'
  binary=$(httpd_binary)
  configure "$1"
  test=$({ time "$binary" -t -f "$folder/httpd.conf" >"$folder/test" 2>&1; } 2>&1 | awk '{ print int(($1 + $2) * 1000) }')
  "$binary" -f "$folder/httpd.conf" -k start >&2
  poll_until 300 answers || die "the server does not answer: $(tail -1 "$folder/error.log")"
  start=$(cpu)
  n=$(generations)
  rm -f "$folder/end"
  perl "$here/lib/new-connections.pl" "$port" s1.test "$folder/end" >"$folder/probe" &
  probe=$!
  sleep 1
  before=$(cpu)
  kill -USR1 "$(pid)"
  poll_until 300 restarted "$n" || die "the server did not restart: $(tail -1 "$folder/error.log")"
  sleep 1                     # the new child processes are there
  touch "$folder/end"
  wait "$probe" || die "the client failed"
  read -r wait n <"$folder/probe"
  ((n == 0)) || say "$1: $n connections failed"
  printf '%-8s %8d %8d %8d %8d %10d %10d\n' "$1" "$test" "$start" $(($(cpu) - before)) "$wait" "$(set_size "$(pid)")" "$(largest_child)"
  stop_server
}

restarted() { (($(generations) > $1)); }

main() {
  local target
  parse_options n: '' "$@"
  set -- "${words[@]}"
  vhosts=${given[-n]-$vhosts}
  (($# == 0)) || misuse "unexpected argument '$1'"
  [[ $vhosts =~ ^[1-9][0-9]{2,4}$ && $vhosts -le 50000 ]] || misuse "-n: '$vhosts' is not a whole number from 100 to 50000"
  need_root
  need curl perl
  [[ -e $(in_tree mod_vhostlimit/.libs/mod_vhostlimit.so) ]] || cannot "the module is not built"
  folder=$(mktemp -d)
  on_exit clean_up
  chmod 755 "$folder"
  mkdir "$folder/www"
  echo hello >"$folder/www/index.html"
  printf '%-8s %8s %8s %8s %8s %10s %10s\n' "$vhosts" 'test, ms' start restart wait 'parent, KB' child
  for target in plain module; do measure "$target"; done
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
