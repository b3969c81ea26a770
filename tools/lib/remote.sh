# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Clients on other machines, over ssh (bench.sh --clients).  A keeper process on each
# holds the sites' names in its hosts file during the run; each load is an ssh of its
# own.  Both clean up when their connection ends, for whatever reason.  The test bed's
# Apache is then in this machine's own network.

remote_hosts=()                 # names for ssh; if they are fewer than the clients, they take turns
remote_loads=()                 # the load generators that they need
remote_keepalive=0 remote_install=no remote_server=''
remote_pids=() remote_mapped=() remote_to=() remote_from=() remote_seen=() remote_offsets=()
remote_versions=''              # "load version" of each host, a line each
remote_answer=''
remote_cpu_before=() remote_cpu_after=() remote_cpu=''    # see remote_cpu_end
remote_at=0                     # start time of the run, µs of this machine's clock
remote_run=-                    # name of the run for the clients; -: loads start at once
remote_delay=0                  # seconds from remote_at to the start of the next load

remote_set() { # <install: yes or no> <server or nothing> <keepalive 0|1> <load>...
  remote_install=$1 remote_server=$2 remote_keepalive=$3 remote_loads=("${@:4}")
}
remote_used()   { ((${#remote_hosts[@]})); }
remote_host_known() { [[ $1 =~ ^[A-Za-z0-9_][A-Za-z0-9_.:%@-]*$ ]]; }          # <host>
remote_index()  { echo $((($1 - 1) % ${#remote_hosts[@]})); }                  # <client>
remote_host()   { printf '%s\n' "${remote_hosts[$(remote_index "$1")]}"; }     # <client>
remote_file()   { bed_file "remote-$1.$2"; }                                   # <index> <to|from|err>
remote_clock()  { echo "${EPOCHREALTIME/[.,]/}"; }                             # us

# Replaces the shell, a child of the tool's own process: bash on the host, as root, with a
# script on stdin.  ssh runs as the user who called sudo, and ends when the tool's process
# ends.  A process that ended before setpriv sends no signal, so the parent is compared.
remote_ssh() { # <host>
  local as=() options
  bed_unlock_child
  [[ -z ${SUDO_USER-} ]] || as=(--reuid "$SUDO_USER" --regid "$(id -g "$SUDO_USER")" --init-groups)
  options=(BatchMode=yes ConnectTimeout=10 ServerAliveInterval=5 ServerAliveCountMax=3 ControlMaster=no ClearAllForwardings=yes LogLevel=ERROR)
  # shellcheck disable=SC2016  # for the shells that are started
  exec setpriv "${as[@]}" --pdeathsig TERM sh -c '[ "$PPID" -eq "$0" ] && exec "$@"' "$$" ssh -Tax "${options[@]/#/-o}" "$1" \
    'sh -c '\''if [ "$(id -u)" -eq 0 ]; then exec bash -s -- $SSH_CONNECTION; else exec sudo -n bash -s -- $SSH_CONNECTION; fi'\'
}

# --- the keepers ------------------------------------------------------------

# Instead of namespaces: connects to the clients, and asks which address of this machine
# they see.
bed_network_host() {
  local i load
  load_prepare "$remote_keepalive" "${remote_loads[@]}"
  for i in "${!remote_hosts[@]}"; do remote_open "$i"; done
  for i in "${!remote_hosts[@]}"; do
    for load in "${remote_loads[@]}"; do remote_hello "$i" "$load"; done
  done
  remote_same_server
  for i in "${!remote_hosts[@]}"; do
    remote_mapped[i]=yes
    remote_ask "$i" 20 "map $remote_server ${bed_sites[*]/%/.test}"
  done
  bed_serve "$remote_server"
}

# The fifos are opened for reading and writing, so that neither side sees an end of file
# before ssh ends.
remote_open() { # <index>
  local to from to_fd from_fd
  to=$(remote_file "$1" to) from=$(remote_file "$1" from)
  mkfifo "$to" "$from"
  exec {to_fd}<>"$to" {from_fd}<>"$from"
  remote_to[$1]=$to_fd remote_from[$1]=$from_fd
  (remote_ssh "${remote_hosts[$1]}") <"$to" >"$from" 2>"$(remote_file "$1" err)" &
  remote_pids[$1]=$!
  remote_script >&"${remote_to[$1]}"
}

remote_script() {
  local file
  cat "$(in_tree tools/lib/common.sh)" "$(in_tree tools/lib/poll.sh)" "$(in_tree tools/lib/packages.sh)" "$(in_tree tools/lib/client.sh)"
  # shellcheck disable=SC2016  # for the shell there
  printf 'prog=%q\nclient_seen=${1-}\nclient_lock\n' "$prog"
  for file in "$(load_dir)"/*; do
    printf "client_file %q <<'END'\n%s\nEND\n" "${file##*/}" "$(base64 "$file")"
  done
  printf 'client_serve; exit\n'       # on one line: the next line is the first command
}

remote_hello() { # <index> <load>
  local address version wait=30
  [[ $remote_install == no ]] || wait=600
  remote_ask "$1" "$wait" "hello $2 $(remote_least "$2") $remote_install $(uname -m)"
  read -r _ address version <<<"$remote_answer"
  remote_versions+="$2 $version"$'\n'
  remote_seen[$1]=$address
}

remote_least() { # <load>: the version that knows what we ask of it
  case $1 in h2load) echo 1.27 ;; *) echo 4 ;; esac
}

# Sends a command to a keeper and sets remote_answer.  Ends the program if it fails.
remote_ask() { # <index> <seconds> <line>
  remote_try "$@" || die "$remote_answer"
}

remote_try() { # <index> <seconds> <line>: 1 and a sentence if there is no good answer
  local who="client ${remote_hosts[$1]}" line=''
  printf '%s\n' "$3" >&"${remote_to[$1]}"
  poll_until "$2" remote_has_answered "$1" || { remote_answer="$who does not answer within $2 s"; return 1; }
  remote_answer="$who: $(remote_why "$1")"
  read -r -t 0 -u "${remote_from[$1]}" || return 1
  IFS= read -r -u "${remote_from[$1]}" line
  remote_answer=$line
  [[ $line == ok* ]] || { remote_answer="$who: ${line#no }"; return 1; }
}

# It has, or it is gone.
remote_has_answered() { read -r -t 0 -u "${remote_from[$1]}" || process_gone "${remote_pids[$1]}"; } # <index>

remote_why() { # <index>: what ssh said last
  local said
  said=$(tail -n 1 "$(remote_file "$1" err)")
  printf '%s\n' "${said:-the connection was lost}"
}

# Sets remote_server: the address of --server, or the one that all clients see.
remote_same_server() {
  local seen
  if [[ -n $remote_server ]]; then
    remote_own "$remote_server" || die "--server: $remote_server is not an address of this machine"
    return
  fi
  seen=$(printf '%s\n' "${remote_seen[@]}" | sort -u)
  [[ $seen != *$'\n'* ]] ||
    die "the clients see this machine under several addresses ($(paste -sd' ' <<<"$seen")); choose one with --server"
  remote_own "$seen" ||
    die "the clients see this machine as $seen, which is none of its own addresses; choose one with --server"
  remote_server=$seen
}

remote_own() { grep -qxF -- "$1" <<<"$(ip -o address | awk '{ sub("/.*", "", $4); print $4 }')"; }     # <address>

remote_version() { # <load>
  local versions
  versions=$(sed -n "s/^$1 //p" <<<"$remote_versions" | sort -uV | paste -sd/ -)
  printf '%s\n' "$1${versions:+ $versions}"
}

# Each client requests a path of its own, and Apache's log has the address that the
# request came from.  Behind a router that differs from the client's own address.  Before
# that only this machine gets pages.
remote_reach() {
  local i log=$bed_dir/reach.log name peers=()
  bed_switch off "LogFormat \"%a %U\" reach"$'\n'"CustomLog \"$log\" reach"
  for i in "${!remote_hosts[@]}"; do
    name=/reach-$i-$RANDOM$RANDOM$RANDOM
    remote_ask "$i" 10 "reach ${bed_sites[0]}.test 80 $name"
    poll_until 5 grep -q " $name\$" "$log" ||
      die "client ${remote_hosts[i]}: its request did not reach this Apache; another server answers for ${bed_sites[0]}.test there"
    peers+=("$(sed -n "s|^\([^ ]*\) $name\$|\1|p" "$log" | sed -n 1p)")
  done
  bed_serve "$remote_server" "${peers[@]}"
  say "pages are served to this machine and to ${peers[*]} only"
}

remote_alive() { # 1 and a sentence in remote_answer if one is lost
  local i
  for i in "${!remote_hosts[@]}"; do
    remote_try "$i" 10 clock || return 1
  done
}

# Ends all background processes, and waits until the keepers have restored what they
# changed.
remote_down() {
  local i pids
  mapfile -t pids < <(jobs -p | grep -vxF "$(printf '%s\n' "${remote_pids[@]}")")
  process_stop "${pids[@]}"
  for i in "${!remote_pids[@]}"; do
    printf 'end\n' >&"${remote_to[$i]}"
  done
  for i in "${!remote_pids[@]}"; do
    poll_until 10 process_gone "${remote_pids[$i]}" && wait "${remote_pids[$i]}" || [[ -z ${remote_mapped[$i]-} ]] ||
      say "client ${remote_hosts[$i]}: its hosts file may still have the sites' names; the next run removes them"
    process_stop "${remote_pids[$i]}"
  done
}

# --- the loads --------------------------------------------------------------

# Waits until all loads of a run are connected, then sends each client the start time by
# its own clock.  The clocks are compared before each run, because they drift.  Returns 1
# and sets remote_answer to the pid of a load that is not ready.
remote_start() { # <"pid prefix">...; sets remote_at
  local i one
  for one; do
    poll_until 60 remote_settled "${one%% *}" "${one#* }" && grep -qs '^ready' "${one#* }.err" && continue
    remote_answer="${one%% *}"
    return 1
  done
  for i in "${!remote_hosts[@]}"; do remote_compare "$i"; done
  remote_at=$(($(remote_clock) + 1000000))
  for i in "${!remote_hosts[@]}"; do
    remote_ask "$i" 10 "at $remote_run $((remote_at + remote_offsets[i]))"
  done
}

# Prints nothing; remote_cpu gets a JSON object with each client's CPU time over the run.
remote_cpu_begin() { remote_cpu_ask remote_cpu_before; }

remote_cpu_end() {
  local i
  local -a after before
  remote_cpu_ask remote_cpu_after
  remote_cpu=''
  for i in "${!remote_hosts[@]}"; do
    [[ -n ${remote_cpu_before[i]-} && -n ${remote_cpu_after[i]-} ]] || continue
    read -ra before <<<"${remote_cpu_before[i]}"
    read -ra after <<<"${remote_cpu_after[i]}"
    ((after[0] > before[0])) || continue
    remote_cpu+=$(lib_jq result client_cpu -nc --arg name "client ${remote_hosts[i]}" \
      --args $((after[0] - before[0])) $((after[1] - before[1])) $((after[2] - before[2])))$'\n'
  done
}

# A client that does not answer here is found by the next command to it.
remote_cpu_ask() { # <name of an array>
  local i
  local -n ticks=$1
  ticks=()
  for i in "${!remote_hosts[@]}"; do
    # shellcheck disable=SC2034  # the caller's array
    ! remote_try "$i" 10 cpu || ticks[i]=${remote_answer#ok }
  done
}

remote_cpu_json() { if remote_used; then jq -sc . <<<"$remote_cpu"; else echo null; fi; }

remote_settled() { grep -qs '^ready' "$2.err" || process_gone "$1"; }     # <pid> <file prefix>

# Sets the offset of a client's clock.  Of five answers the fastest is the most exact.
remote_compare() { # <index>
  local before after best=''
  for _ in 1 2 3 4 5; do
    before=$(remote_clock)
    remote_ask "$1" 10 clock
    after=$(remote_clock)
    [[ -z $best ]] || ((after - before < best)) || continue
    best=$((after - before))
    remote_offsets[$1]=$((${remote_answer#ok } - before - best / 2))
  done
}

# Replaces the shell: call it in the background or in parentheses.
remote_load() { # <load>[:<streams>] <client> <users> <length> <keepalive 0|1> <url> <file prefix>
  local words load=${1%%:*} deadline=$((${4%s} + ${4%s} / 10 + 20)) pipe=$7.fifo
  "${load}_words" /run/vhostlimit-client "${@:3:4}" times "${1#*:}" "$2"
  bed_note ssh "$(remote_host "$2")" "${load_words[@]}"
  printf -v words ' %q' "${load_words[@]}"
  rm -f "$pipe"
  mkfifo "$pipe"
  exec {fifo}<>"$pipe"
  rm -f "$pipe"
  # On one line: without its keeper's files the shell there ends, and does not wait for more.
  printf '. /run/vhostlimit-client/load.sh && client_load %s %s %s %s%s; exit\n' \
    "$remote_run" "$((remote_delay * 1000000))" "$deadline" "$(($3 + 200))" "$words" >&"$fifo"
  remote_ssh "$(remote_host "$2")" <&"$fifo" >"$7.$load" 2> >(sed -u 1000q >"$7.err"; cat >/dev/null)
}

# The load's file of response times follows its output.
remote_unpack() { # <load> <file prefix>
  grep -qx 'times:' "$2.$1" || return 0
  sed '1,/^times:$/d' "$2.$1" >"$2.times"
  sed -i '/^times:$/,$d' "$2.$1"
}

remote_began() { # <client> <file prefix>: the instant, s of our clock; nothing if not known
  local at
  at=$(sed -n 's/^began //p' "$2.err" | sed -n 1p)
  [[ -z $at ]] || awk -v at="$at" -v offset="${remote_offsets[$(remote_index "$1")]}" \
    'BEGIN { printf "%.6f\n", (at - offset) / 1e6 }'
}

remote_last_words() { tail -n 1 "$1" | sed 's/\x1b\[[0-9;]*m//g'; }     # <file>

remote_lost() { # <status> <file prefix>: what happened to a load, a sentence
  case $1 in
    255) echo "the connection was lost: $(tail -n 1 "$2.err")" ;;
    124 | 137) echo 'it did not end in time and was killed' ;;
    *) echo "it ended with status $1: $(remote_last_words "$2.err")" ;;
  esac
}
