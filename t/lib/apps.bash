# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Back ends for tests of what sites are charged. Apache and its back ends run in a cgroup, whose CPU
# time is the kernel's count.

SIZE=(-t 'StartServers 2' -t 'ServerLimit 2' -t 'ThreadLimit 32' -t 'ThreadsPerChild 32'
  -t 'MaxRequestWorkers 64' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 64')

FPM_OPTIONS=()
POOL_LINES=()    # more lines of each pool of start_fpm
IN_NET=()        # a command that runs back ends in another network namespace

is_long() { [[ ${VL_LONG:-0} != 0 ]]; }

teardown() { all_of stop_apps end_server remove_group; }

group() { printf '/vl-apps-%s%s\n' "${VL_TEST_ID:+$VL_TEST_ID-}" "$(httpd_port)"; }

start_in_group() { # <start_httpd argument>...
  local root
  while read -r root; do
    mkdir "$root$(group)" 2>/dev/null || continue
    grep -qs '^usage_usec' "$root$(group)/cpu.stat" || [[ -e $root$(group)/cpuacct.usage ]] || rmdir "$root$(group)"
  done < <(cgroup_roots)
  make_site 'a b c'
  make_apps
  configure_httpd "${SIZE[@]}" 'VhostLimitCgroup off' 'VhostLimit On' "$@"
  (cgroup_enter "$(group)"; launch_httpd)
}

remove_group() { wait_until 10 cgroup_remove "$(group)"; }

# Runs a back end as the server's user, in the group.
run_app() { # <name> <socket or [address:]port that it listens at> <command>...
  local user
  user=$(httpd_user)
  (
    cgroup_enter "$(group)"
    detached "${IN_NET[@]}" setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups "${@:3}" </dev/null >"$HTTPD_ROOT/app/run/$1.out" 2>&1 &
    echo "$!" >"$HTTPD_ROOT/app/run/$1.pid"
  )
  wait_until 20 listens "$2" || { cat "$HTTPD_ROOT/app/run/$1.out"; return 1; }
}

# Connections of an earlier server that are in TIME_WAIT have its port too.
listens() { if [[ $1 == /* ]]; then [[ -S $1 ]]; elif [[ $1 == *:* ]]; then [[ $("${IN_NET[@]}" ss -Hltn "src $1") ]]; else listens ":$1"; fi; }   # <socket, [address:]port>

start_fpm() { # <name> <pool>=<address>...
  local run=$HTTPD_ROOT/app/run pool last=${*: -1:1}
  last=${last#*=}
  {
    printf '%s\n' '[global]' "error_log = $run/$1.log" 'daemonize = no'
    for pool in "${@:2}"; do
      printf '%s\n' "[${pool%%=*}]" "listen = ${pool#*=}" 'listen.mode = 0666' 'pm = static' 'pm.max_children = 12' "${POOL_LINES[@]}"
    done
  } >"$run/$1.conf"
  run_app "$1" "$last" "$(php_fpm_program | sed -n 1p)" -n -y "$run/$1.conf" "${FPM_OPTIONS[@]}"
}

stop_app() { # <name>
  local file=$HTTPD_ROOT/app/run/$1.pid pid
  pid=$(<"$file")
  rm "$file"
  kill "$pid" 2>/dev/null || return 0
  wait_until 20 gone "$pid"
}

stop_apps() {
  local file
  for file in "$HTTPD_ROOT"/app/run/*.pid; do
    file=${file##*/}
    [[ $file == '*.pid' ]] || stop_app "${file%.pid}"
  done
}

php_at() { # <vhost> <target of the proxy>
  printf '%s <FilesMatch "\.php$">\nSetHandler "proxy:%s"\n</FilesMatch>\n' "$1" "$2"
}

# Microseconds that the kernel counted for the group, without Apache's parent, its child processes
# with many threads, and the sampler.
kernel_us() {
  local pid threads pids=("$(httpd_pid)")
  for pid in $(httpd_children); do
    threads=("/proc/$pid/task/"*)
    ((${#threads[@]} < 20)) || pids+=("$pid")
  done
  mapfile -t -O "${#pids[@]}" pids < <(pgrep -P "$(httpd_pid)" -x vl-sampler)
  echo $(($(cgroup_used_us "$(cgroup_file "$(group)" cpuacct.usage cpu.stat)") - $(cpu_of "${pids[@]}")))
}

# Loads both sites at once, and waits for the end.
load_both() { # <path of a> <path of b> [<users of a> [<users of b>]]
  local pids pid
  begin_load a "${3:-4}" "$1"
  pids=$!
  begin_load b "${4:-4}" "$2"
  for pid in $pids $!; do wait "$pid" || fail "ab: $(cat "$HTTPD_ROOT/ab."[ab])"; done
}

# Begins a load of site a that lasts until end_load.
begin_long_load() { # <users> <path>
  VL_APPS_SECONDS=100 begin_load a "$@"
  long_load=$!
}
end_load() { kill "$long_load"; }

# Sites a and b behind PHP-FPM, with a pool for each, or with one for both.
two_pools() {
  local run=$HTTPD_ROOT/app/run
  start_in_group -l proxy -l proxy_fcgi -v "$(php_at a "unix:$run/a|fcgi://a/")" -v "$(php_at b "unix:$run/b|fcgi://b/")"
  start_fpm fpm a="$run/a" b="$run/b"
}

shared_pool() {
  local run=$HTTPD_ROOT/app/run
  start_in_group -l proxy -l proxy_fcgi -v "$(php_at a "unix:$run/p|fcgi://p/")" -v "$(php_at b "unix:$run/p|fcgi://p/")"
  start_fpm fpm p="$run/p"
}

pages_of() { sed -n 's/^Complete requests: *//p' "$HTTPD_ROOT/ab.$1"; }        # <vhost>: of its last load

begin_load() { # <vhost> <users> <path>
  (cd /; detached ab -q -l -r -s 60 -t "${VL_APPS_SECONDS:-4}" -n 1000000 -c "$2" -H "Host: $1.test" \
    "http://127.0.0.1:$(httpd_port)$3") >"$HTTPD_ROOT/ab.$1" 2>&1 &
}
