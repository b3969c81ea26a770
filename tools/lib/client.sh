# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Runs as root on a client of bench.sh --clients: holds the sites' names in the hosts
# file during the run, and generates the load.  remote.sh sends this file.  Everything is
# in client_dir, so that a later run finds what a crash left behind.

client_dir=/run/vhostlimit-client
client_hosts=/etc/hosts
client_seen=''                          # the server's address, as sshd sees it
client_mark='vhostlimit-testbed'        # in the first and last of the lines added to the hosts file

# --- the keeper: one for each run ------------------------------------------------

client_refuse() { # <sentence>
  printf 'no %s\n' "$*"
  exit 1
}

# Takes the client for this run, and cleans up after a run that died.
client_lock() {
  local pid=''
  [[ ! -s $client_dir/pid ]] || pid=$(<"$client_dir/pid")
  if [[ -n $pid ]] && ! poll_until 10 client_gone "$pid"; then
    client_refuse "another run uses this client (process $pid there)"
  fi
  client_end
  trap client_end EXIT
  exit_at 1 INT TERM HUP
  mkdir -m 700 "$client_dir" || client_refuse "$client_dir cannot be created"
  folder_let_run "$client_dir" 700 || client_refuse "programs cannot run in $client_dir"
  echo "$$" >"$client_dir/pid"
  declare -p client_dir >"$client_dir/load.sh"
  declare -f client_load client_await client_watch >>"$client_dir/load.sh"
}

client_gone() { [[ $(tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline") != 'bash -s'* ]]; }    # <pid>

# The loads have ended when this returns.
client_end() {
  local pids
  mapfile -t pids < <(cat "$client_dir"/load-*.pid 2>/dev/null)
  if ((${#pids[@]})); then
    kill -TERM "${pids[@]}" 2>/dev/null || true
    poll_until 5 client_ended "${pids[@]}" || kill -KILL "${pids[@]}" 2>/dev/null || true
  fi
  client_unmap
  folder_remove "$client_dir"
}

client_ended() { # <pid>...
  local pid
  for pid; do [[ ! -e /proc/$pid ]] || return 1; done
}

client_file() { # <name>: from stdin
  base64 -d >"$client_dir/$1"
  chmod 700 "$client_dir/$1"
}

# -> ok, address and version
client_hello() { # <load> <least version> <install: yes or no> <machine>
  local version
  [[ $1 != hosts ]] || set -- wrk "${@:2}"      # see hosts.sh
  [[ $(uname -m) == "$4" ]] || rm -f "$client_dir"/*.so
  client_has "$1" "$3"
  version=$(client_version "$1")
  [[ $(printf '%s\n' "$2" "$version" | sort -V | sed -n 1p) == "$2" ]] ||
    client_refuse "version ${version:-unknown} of $1 is installed there; $2 or newer is needed"
  [[ $1 != h2load ]] || client_preloads h2load-end.so
  printf 'ok %s %s\n' "$client_seen" "$version"
}

client_has() { # <load> <install: yes or no>
  command -v "$1" >/dev/null || [[ $2 == no ]] || (packages_install "$1") >&2 </dev/null || true
  command -v "$1" >/dev/null || client_refuse "$1 is not installed there (install it, or let --install do it)"
}

client_version() { # <load>
  (cd "$client_dir" && HOME=$client_dir "$1" --version 2>&1 | grep -oE '[0-9]+(\.[0-9]+)+' | sed -n 1p) || true
}

client_preloads() { # <file>
  ! grep -q "$1" <<<"$(LD_PRELOAD=$client_dir/$1 true 2>&1)" ||
    client_refuse "$1, as compiled for the server, cannot be loaded there"
}

# Written in place: in a container the hosts file is mounted and cannot be replaced.
client_map() { # <address> <name>...
  local text
  text=$(cat "$client_hosts"; echo x)
  printf '# %s begin: made by mod_vhostlimit for a measurement, removed at its end\n%s\n# %s end\n%s' \
    "$client_mark" "$*" "$client_mark" "${text%x}" >"$client_hosts" ||
    client_refuse "$client_hosts cannot be written"
  text=$(getent ahosts "$2" | awk 'NR == 1 { print $1 }')
  [[ $text == "$1" ]] || client_refuse "$2 resolves to ${text:-nothing} there although it is in $client_hosts"
  echo ok
}

client_unmap() {
  local text
  grep -qs "^# $client_mark begin" "$client_hosts" || return 0
  text=$(sed "/^# $client_mark begin/,/^# $client_mark end/d" "$client_hosts"; echo x)
  printf '%s' "${text%x}" >"$client_hosts"
}

client_reach() { # <name> <port> <path>: requests it; any status is accepted
  local line=''
  # shellcheck disable=SC2016  # for the inner shell
  line=$(timeout 5 bash -c 'exec 3<>"/dev/tcp/$1/$2" && printf "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n" "$3" "$1" >&3 &&
    IFS= read -r line <&3 && echo "$line"' - "$@" 2>/dev/null) || client_refuse "$1 cannot be reached from there, port $2"
  [[ $line == HTTP/* ]] || client_refuse "$1 does not answer as a web server there, port $2"
  echo ok
}

client_tell() { # <run> <its instant, us>: the loads look for the file
  printf '%s\n' "$2" >"$client_dir/at.tmp"
  mv "$client_dir/at.tmp" "$client_dir/at-$1"
  echo ok
}

client_cpu() { # -> ok, and the ticks of all CPUs together: all, idle, steal
  local user nice system idle iowait irq softirq steal
  read -r _ user nice system idle iowait irq softirq steal _ </proc/stat
  echo "ok $((user + nice + system + idle + iowait + irq + softirq + steal)) $((idle + iowait)) $steal"
}

# Answers commands, a line each, until the connection ends or nothing comes for an hour.
client_serve() {
  local words
  while read -r -t 3600 -a words; do
    case ${words[0]-} in
      clock) date '+ok %s%6N' ;;
      cpu) client_cpu ;;
      at) client_tell "${words[1]}" "${words[2]}" ;;
      map | reach | hello) "client_${words[0]}" "${words[@]:1}" ;;
      end) break ;;
    esac
  done
}

# --- one load, in a shell of its own ----------------------------------------

# Reports that it is ready, and starts when the keeper has the run's start time.  The
# load's file of response times follows its output.  Ends with its status, or 124 if it
# was still running at its deadline.
client_load() { # <run, or -: now> <us after its instant> <seconds until it is ended> <open files> <command>...
  local pid='' watch rc=0
  ulimit -n "$4" 2>/dev/null || [[ $(ulimit -n) == unlimited ]] || (($(ulimit -n) >= $4)) ||
    { echo "too few file descriptors there: $4 are needed" >&2; exit 1; }
  HOME=$(mktemp -d "$client_dir/home.XXXXXX")
  export HOME
  cd "$HOME" || exit
  trap '[[ -z $pid ]] || kill "$pid"; exit 143' TERM
  client_watch "$$" <&0 &
  watch=$!
  echo ready >&2
  [[ $1 == - ]] || client_await "$1" "$2"
  printf 'began %s\n' "$(date +%s%6N)" >&2
  timeout -k 2 "$3" "${@:5}" </dev/null &
  pid=$!
  echo "$pid" >"$client_dir/load-$pid.pid"
  wait "$pid" || rc=$?
  rm -f "$client_dir/load-$pid.pid"
  [[ ! -e times ]] || { echo times: && cat times; }
  kill "$watch" 2>/dev/null || true
  exit "$rc"
}

client_await() { # <run> <us after its instant>
  local left try
  for ((try = 0; try < 2400; try++)); do
    [[ ! -e $client_dir/at-$1 ]] || break
    sleep 0.05
  done
  [[ -e $client_dir/at-$1 ]] || { echo 'the start time did not arrive' >&2; exit 1; }
  while left=$(($(<"$client_dir/at-$1") + $2 - $(date +%s%6N))) && ((left > 0)); do
    ((left < 500000)) || left=500000
    sleep "0.$(printf '%06d' "$left")"
  done
}

client_watch() { # <pid>: ends it when the connection has ended
  ! read -r || return 0
  kill -TERM "$1" 2>/dev/null
}
