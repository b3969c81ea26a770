#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: print the memory that Apache needs for an idle keep-alive connection, without
#          and with the module, over HTTP/1.1, TLS and HTTP/2
# Usage:   memory.sh [-n CONNECTIONS]
#   -n CONNECTIONS  how many connections are opened, from 100 to 9000 (1000)
#   -h, --help      this help
#   --version       the version
#   After one request on each connection, with the module two, the growth of the proportional set size
#   (/proc/PID/smaps_rollup) of all processes of Apache is divided by the number of
#   connections that Apache keeps open. With the module one slot makes them wait in
#   the queue. The module has to be built (./autogen.sh &&
#   ./configure && make). Takes about a minute.
# Exit:    0 printed; 1 failed; 2 usage; 77 cannot run: not root, h2load is missing, or
#          the module is not built

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/poll.sh"

connections=1000
load_pid=
log=
script=
rounds=1                      # of requests

end_load() {
  [[ -z $load_pid ]] || { kill "$load_pid" 2>/dev/null && wait "$load_pid"; } || :
  load_pid=
}

clean_up() {
  end_load
  "$here/setup.sh" down >&2 || :
  rm -f "$log" "$script"
}

processes() { # of the Apache in the server's namespace
  local pid
  for pid in $(ip netns pids vl-server); do
    [[ $(cat "/proc/$pid/comm" 2>/dev/null) != @(apache2|httpd) ]] || printf '%s\n' "$pid"
  done
}

set_size() { # kB
  local pid
  for pid in $(processes); do sed -n 's/^Pss: *//p' "/proc/$pid/smaps_rollup" 2>/dev/null; done |
    awk '{ sum += $1 } END { print sum + 0 }'
}

established() { # <port>
  ip netns exec vl-server ss -Htn state established "sport = :$1" | wc -l
}

# The last round of requests comes later: h2load says 50% after one of two, 60% after two of three.
are_answered()     { grep -q "^progress: $((rounds + 4))0%" "$log"; }
nearly_all_answered() { grep -q "^progress: [$((rounds + 3))$((rounds + 4))]0%" "$log"; }
answered_or_over() { are_answered || ! kill -0 "$load_pid" 2>/dev/null; }

# Plain Apache closes connections when it is busy, and h2load may crash then: tried again.
measure() { # <kind> <option of setup.sh>...: bytes of a connection, and how many were open
  local i
  for ((i = 0; i < 5; i++)); do
    if try_to_measure "$@"; then return; fi
    end_load
    "$here/setup.sh" down >&2
  done
  cat "$log" >&2
  die "fewer than four fifths of the first requests were answered, five times; see the output of h2load above"
}

try_to_measure() { # <as measure>
  local url=http://site1.test/ port=80 options=(--h1) again before open
  [[ $1 == HTTP/1.1 ]] || url=https://site1.test/ port=443
  [[ $1 != HTTP/2 ]] || options=()
  [[ $port == 80 ]] || set -- "$@" -T
  "$here/setup.sh" up -D 'KeepAliveTimeout 300' "${@:2}" >&2 || die "the test bed cannot be made"
  before=$(set_size)
  # Each connection sends a request at once, with the module one after a second, and the last one after 200
  # seconds.
  rounds=1 again=()
  [[ ${2-} != -M ]] || rounds=2 again=(1000 "$url")
  printf '%d\t%s\n' 0 "$url" "${again[@]}" 200000 "$url" >"$script"
  ip netns exec vl-client1 h2load "${options[@]}" -t1 -m1 -c"$connections" -n$((connections * (rounds + 1))) --timing-script-file="$script" >"$log" 2>&1 &
  load_pid=$!
  poll_until 20 answered_or_over || :
  nearly_all_answered || return 1
  sleep 5                     # the threads are idle again, and memory was freed (vl_lease.c)
  open=$(established "$port")
  ((open > 0)) || return 1
  echo "$((($(set_size) - before) * 1024 / open)) $open"
  end_load
  "$here/setup.sh" down >&2
}

main() {
  local kind plain with
  parse_options n: '' "$@"
  set -- "${words[@]}"
  connections=${given[-n]-$connections}
  (($# == 0)) || misuse "unexpected argument '$1'"
  [[ $connections =~ ^([1-8][0-9]{2,3}|9[0-9]{2}|9000)$ ]] ||
    misuse "-n: '$connections' is not a whole number from 100 to 9000"
  need_root
  need h2load ip ss
  need_files $((connections * 5 + 1000))
  log=$(mktemp)
  script=$(mktemp)
  on_exit clean_up
  printf '%-10s %15s %6s %15s %6s\n' connection 'plain, bytes' open 'module, bytes' open
  for kind in HTTP/1.1 TLS HTTP/2; do
    plain=$(measure "$kind")
    with=$(measure "$kind" -M -D 'VhostLimitSlots 1')
    # shellcheck disable=SC2086  # two numbers each
    printf '%-10s %15d %6d %15d %6d\n' "$kind" $plain $with
  done
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
