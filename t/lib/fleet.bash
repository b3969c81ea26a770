# SPDX-License-Identifier: Apache-2.0
#
# Several servers with vhostlimit-fleet, and a store. Each server is one of lib/httpd.bash in
# a folder of its own, with a quota of CPU time if start_web is told one.
#
# needs: redis ab

FLEET_DAEMON=${VL_BUILD_DIR:-$TOP}/fleet/vhostlimit-fleet
need_fleet() { [[ -x $FLEET_DAEMON ]] || { echo "vhostlimit-fleet is not built (hiredis)"; return 1; }; }
need_redis() { command -v redis-server >/dev/null || { echo "no redis-server"; return 1; }; }
need_sentinel() { command -v redis-sentinel >/dev/null || { echo "no redis-sentinel"; return 1; }; }

on_web() { on_server_named "$@"; }              # <name> <command>...

# ---- the store ---------------------------------------------------------------------

store_port() { free_port -store; }
store() { redis-cli -p "$(store_port)" "$@"; }  # <word>...
store_answers() { [[ $(store ping 2>/dev/null) == PONG ]]; }

start_store() { # [option]...
  (detached redis-server --port "$(store_port)" --bind 127.0.0.1 --dir "$BATS_FILE_TMPDIR" --save '' --appendonly no "$@") \
    >"$BATS_FILE_TMPDIR/store.log" 2>&1 &
  store_pid=$!
  wait_until 10 store_answers
}

kill_store() { kill -KILL "$store_pid" 2>/dev/null || :; wait "$store_pid" 2>/dev/null || :; }

# ---- servers -----------------------------------------------------------------------

# Starts a server; with a quota its processes have so many per cent of one processor.
start_web() { # <name> <quota or ''> [as configure_httpd]...
  local root
  if [[ -z $2 ]]; then
    on_web "$1" start_httpd "${@:3}"
  else
    root=$(cgroup_cpu_root)/vl-fleet-${VL_TEST_ID-}$1
    mkdir -p "$root"
    echo 20000 >"$root/cpu.cfs_period_us"
    echo "$((200 * $2))" >"$root/cpu.cfs_quota_us"
    (echo "$BASHPID" >"$root/cgroup.procs" && on_web "$1" start_httpd 'VhostLimitCgroup off' "${@:3}")
  fi
}

end_web() { # <name>
  local root
  on_web "$1" stop_httpd
  root=$(cgroup_cpu_root)/vl-fleet-${VL_TEST_ID-}$1
  [[ ! -d $root ]] || rmdir "$root"
}

# ---- daemons -----------------------------------------------------------------------

declare -gA daemon_pids=()

daemon_folder() { printf '%s/%s\n' "$BATS_FILE_TMPDIR" "$1"; }
daemon_log() { cat "$(daemon_folder "$1")/fleet.log"; }

# Starts the daemon of a server with further lines in its configuration. Its store is that of
# start_store, unless a line names a store or sentinels.
start_daemon() { # <name> [line]...
  local folder line
  folder=$(daemon_folder "$1")
  {
    echo "server $1"
    [[ " ${*:2}" == *" "@(store|sentinel)" "* ]] || echo "store 127.0.0.1:$(store_port)"
    echo "control $(on_web "$1" control_socket)"
    echo "socket $folder/fleet.sock"
    for line in "${@:2}"; do echo "$line"; done
  } >"$folder/fleet.conf"
  (detached "$FLEET_DAEMON" -c "$folder/fleet.conf") >>"$folder/fleet.log" 2>&1 &
  daemon_pids[$1]=$!
}

kill_daemon() { # <name> [signal]
  kill "-${2:-KILL}" "${daemon_pids[$1]}" 2>/dev/null || :
  wait "${daemon_pids[$1]}" 2>/dev/null || :
}

# What vhostlimitctl fleet --json says beside a server.
fleet_of() { "$CTL" -s "$(daemon_folder "$1")/fleet.sock" --json fleet | jq -r "$2"; }  # <name> <jq filter>

is_leasing() { [[ $(fleet_of "$1" .state 2>/dev/null) == leasing ]]; }
knows_servers() { [[ $(fleet_of "$1" '.servers | length' 2>/dev/null) == "$2" ]]; }  # <name> <number>

# A key of a site, or of the server, on a server's status page.
web_site() { on_web "$1" ask "status\t$2.test\n" | jq -r ".vhosts[0].$3"; }  # <name> <vhost> <key>
web_key() { on_web "$1" ask 'status\n' | jq -r ".$2"; }                        # <name> <key>

site_is() { [[ $(web_site "$1" "$2" "$3") == "$4" ]]; }  # <name> <vhost> <key> <value>
web_is() { [[ $(web_key "$1" "$2") == "$3" ]]; }           # <name> <key> <value>

# ---- load --------------------------------------------------------------------------

declare -ga load_pids=()

# So many clients load a site of a server for so many seconds.
begin_load() { # <name> <vhost> <clients> <seconds> <path>
  ab -q -r -t "$4" -n 1000000 -c "$3" -H "Host: $2.test" "http://127.0.0.1:$(on_web "$1" httpd_port)$5" \
    >"$BATS_FILE_TMPDIR/load-$1-$2" 2>&1 3>&- 4>&- &
  load_pids+=($!)
}

end_loads() {
  ((${#load_pids[@]} > 0)) || return 0
  kill -INT "${load_pids[@]}" 2>/dev/null || :
  wait "${load_pids[@]}" 2>/dev/null || :
  load_pids=()
}
