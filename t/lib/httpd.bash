# SPDX-License-Identifier: Apache-2.0
#
# A scratch server of the test's own: three vhosts a.test, b.test and c.test on
# one port of 127.0.0.1, status.test (VhostLimit Off) with the status page, and
# the main server behind 127.0.0.2. Everything lives below $BATS_FILE_TMPDIR.

HTTPD_ROOT=${BATS_FILE_TMPDIR:-}/httpd
BASE_MODULES='authz_core unixd log_config mime dir alias env setenvif headers cgi'

# shellcheck source-path=SCRIPTDIR source=../../tools/lib/template.sh
. "$TOP/tools/lib/template.sh"

# ---- finding the parts -------------------------------------------------------

apxs_program() {
  local p
  for p in "${VL_APXS:-}" apxs apxs2; do
    [[ -n $p ]] && command -v "$p" && return
  done
  fail "no apxs; set VL_APXS"
}

# Sets answer to the line that the command prints. Each start of a server needs the same lines, so they
# are kept for the run.
ask_once() { # <name of the line> <command>...
  local cache=$BATS_RUN_TMPDIR/once-$1
  if [[ ! -e $cache ]]; then
    "${@:2}" >"$cache.$$" && mv "$cache.$$" "$cache" || return
  fi
  IFS= read -r answer <"$cache" || [[ -n $answer ]]
}

ask_apxs()   { local apxs; apxs=$(apxs_program) && "$apxs" -q "$1"; }                           # <name>
apxs_query() { local answer; ask_once "$1" ask_apxs "$1" && printf '%s\n' "$answer"; }  # <name>

httpd_program()    { local answer dir; ask_once SBINDIR ask_apxs SBINDIR && dir=$answer && ask_once PROGNAME ask_apxs PROGNAME && printf '%s/%s\n' "$dir" "$answer"; }
httpd_module_dir() { apxs_query LIBEXECDIR; }
vl_module()        { printf '%s\n' "${VL_MODULE:-${VL_BUILD_DIR:-$TOP}/mod_vhostlimit/.libs/mod_vhostlimit.so}"; }

# ---- configuration -----------------------------------------------------------

# Writes a complete configuration. Options in any order; a line without an option
# belongs to the main server:
#   -m MPM           event, worker or prefork (default $VL_MPM, else event)
#   -l MODULE        load mod_MODULE too            -n        without the module
#   -v 'NAME LINE'   a line inside NAME.test        -x LINE   after the vhosts
#   -o 'a c b'       which vhosts, in which order   -t LINE   MPM settings instead
configure_httpd() { # [-n] [-m MPM] [-l MODULE] [-v 'NAME LINE'] [-x LINE] [-o NAMES] [-t LINE] [LINE]...
  local mpm=${VL_MPM:-event} modules=$BASE_MODULES names='a b c' tuning='' ours=yes
  local server='' tail='' name vhosts='' port user answer template_text
  local -A inside=()
  while (($#)); do
    case $1 in
      -m) mpm=$2; shift ;;
      -l) modules+=" $2"; shift ;;
      -v) inside[${2%% *}]+="${2#* }"$'\n'; shift ;;
      -x) tail+=$2$'\n'; shift ;;
      -o) names=$2; shift ;;
      -t) tuning+=$2$'\n'; shift ;;
      -n) ours='' ;;
      *) server+=$1$'\n' ;;
    esac
    shift
  done
  [[ $mpm != prefork || $tuning != *Thread* ]] || skip "VL_MPM: prefork has no threads"
  make_site "$names"
  port_of ''
  for name in $names; do
    template_fill "$TOP/t/conf/vhost.conf.in" NAME="$name" ROOT="$HTTPD_ROOT" PORT="$port" LINES="${inside[$name]:-}"
    vhosts+=$template_text$'\n'
  done
  [[ -z $ours ]] || modules+=' vhostlimit'
  # Groups of its own: another server on this machine may use the default path.
  [[ -z $ours || $server == *VhostLimitCgroup* ]] || server+="VhostLimitCgroup $(httpd_cgroup)"$'\n'
  # Requests must not be refused because the machine is slow.
  [[ -z $ours || $server == *VhostLimitQueue* ]] || ((SLOWER == 1)) || server+="VhostLimitQueue 1000 $((10 * SLOWER))s"$'\n'
  if [[ -n $ours ]]; then
    template_fill "$TOP/t/conf/status.conf.in" ROOT="$HTTPD_ROOT" PORT="$port"
    vhosts+=$template_text$'\n'
  fi
  ask_once user httpd_user && user=$answer && ask_once group id -gn "$user"
  template_fill "$TOP/t/conf/httpd.conf.in" ROOT="$HTTPD_ROOT" PORT="$port" USER="$user" GROUP="$answer" \
    TIMEOUT=$((20 * SLOWER)) MODULES="$(load_lines "mpm_$mpm $modules")" TUNING="${tuning:-$(tuning_of "$mpm")}" \
    SERVER="$server" VHOSTS="$vhosts" TAIL="$tail"
  printf '%s\n' "$template_text" >"$HTTPD_ROOT/httpd.conf"
}

# Prints virtual hosts for -x: shop1.example to shopN.example, with the documents of
# a.test. More than a few hundred are too long for a command line; write them to a file.
shop_vhosts() { # <number>
  seq "$1" | awk -v port="$(httpd_port)" -v documents="$HTTPD_ROOT/htdocs/a" \
    '{ printf "<VirtualHost 127.0.0.1:%s>\nServerName shop%d.example\nDocumentRoot \"%s\"\n</VirtualHost>\n", port, $1, documents }'
}

load_lines() { # <module names>
  local name file dir
  dir=$(httpd_module_dir)
  for name in $1; do
    file=$dir/mod_$name.so
    [[ $name != vhostlimit ]] || file=$(vl_module)
    if [[ -e $file ]]; then
      printf 'LoadModule %s_module "%s"\n' "$name" "$file"
    elif [[ $name == vhostlimit ]]; then
      fail "module not built: $file"
    fi                                    # else: compiled in, or httpd -t reports it
  done
}

tuning_of() { # <mpm>   small, several children, and room for two generations
  case $1 in
    prefork) printf '%s\n' 'StartServers 4' 'MinSpareServers 4' 'MaxSpareServers 40' \
      'ServerLimit 40' 'MaxRequestWorkers 40' ;;
    *) printf '%s\n' 'StartServers 2' 'ServerLimit 8' 'ThreadsPerChild 8' 'ThreadLimit 8' \
      'MinSpareThreads 8' 'MaxSpareThreads 32' 'MaxRequestWorkers 32' ;;
  esac
}

# Arguments of start_httpd for a server with one child process of 16 threads.
# shellcheck disable=SC2034  # used by test files
ONE_CHILD=(-t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadLimit 16' -t 'ThreadsPerChild 16'
  -t 'MaxRequestWorkers 16' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 16')

httpd_user() {
  local user
  for user in www-data apache nobody; do
    if id "$user" >/dev/null 2>&1; then echo "$user"; return; fi
  done
}

# Prints a port of the test file: no process listens on it, and no other file has it.
httpd_port() { free_port ''; }
free_port() { local port; port_of "$1" && echo "$port"; }  # <name, empty for the server's>
port_of() { # <as free_port>: sets port
  local file=$BATS_FILE_TMPDIR/port$1
  [[ -e $file ]] || reserve_port "$file" || { fail "no free port"; return 1; }
  read -r port <"$file"
}

# Each reserved port is a file in one folder, with the path of the owner's folder in it.
# When that folder is gone the port is free again. The ports are below those that the
# kernel gives to clients. With isolate.sh each test file has a /run of its own.
reserve_port() { # <file for the port>
  local folder=${TMPDIR:-/tmp}/vl-test-ports port try lock
  [[ -z ${VL_TEST_ID-} ]] || folder=/run/vl-test-ports
  [[ -d $folder ]] || { mkdir -p "$folder" && chmod 1777 "$folder"; }
  exec {lock}>>"$folder/lock"
  chmod 666 "$folder/lock" 2>/dev/null || :
  flock "$lock" || return
  [[ ! -e $1 ]] || { exec {lock}>&-; return; }          # another process of this file was first
  for ((try = 0; try < 12000; try++)); do
    port=$((20000 + ($$ * 7 + try * 13) % 12000))
    [[ ! -e $folder/$port || ! -d $(<"$folder/$port") ]] || continue
    port_free "$port" || continue
    rm -f "$folder/$port"
    echo "$BATS_FILE_TMPDIR" >"$folder/$port" || continue
    echo "$port" >"$1.new"
    mv "$1.new" "$1"
    exec {lock}>&-
    return
  done
  exec {lock}>&-
  return 1
}

port_free() { # <port>
  local hex
  hex=$(printf ':%04X' "$1")
  ! grep -qs "^ *[0-9]*: [0-9A-F]*$hex " /proc/net/tcp /proc/net/tcp6
}

httpd_cgroup() { local port; port_of '' && printf '/vl-test-%s%s\n' "${VL_TEST_ID:+$VL_TEST_ID-}" "$port"; }

# Documents, scripts and the places they write to; readable by the server's user.
make_site() { # <vhost names>
  local name missing=()
  if [[ ! -d $HTTPD_ROOT/logs ]]; then
    chmod a+x "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/file" "$BATS_FILE_TMPDIR" 2>/dev/null || :
    mkdir -p "$HTTPD_ROOT"/{logs,run,cgi,hold,lua}
    chmod 1777 "$HTTPD_ROOT/hold"
    install -m 755 "$TOP"/t/cgi/* "$HTTPD_ROOT/cgi/"
    install -m 644 "$TOP"/t/lua/*.lua "$HTTPD_ROOT/lua/"
  fi
  for name in main $1; do
    [[ -d $HTTPD_ROOT/htdocs/$name ]] || missing+=("$name")
  done
  ((${#missing[@]} == 0)) || make_documents "${missing[@]}"
}

make_documents() { # <vhost>...
  local folders=("${@/#/$HTTPD_ROOT/htdocs/}") name
  mkdir -p "${folders[@]/%//sub}"
  truncate -s 64M "${folders[@]/%//big.bin}"
  for name; do make_pages "$HTTPD_ROOT/htdocs/$name" "$name"; done
}

make_pages() { # <folder> <vhost>
  echo "index of $2" >"$1/index.html"
  echo "page of $2" >"$1/page.html"
  echo "sub of $2" >"$1/sub/index.html"
  echo "sorry from $2" >"$1/sorry.html"
  echo '[<!--#include virtual="page.html" --><!--#include virtual="page.html" -->]' >"$1/ssi.shtml"
}

# ---- running -----------------------------------------------------------------

# Checks the configuration only; sets $status and $output.
check_config() { # <as configure_httpd>...
  configure_httpd "$@"
  try "$(httpd_program)" -t -f "$HTTPD_ROOT/httpd.conf"
}

# Asserts that each line "DIRECTIVE|MESSAGE" of stdin is refused in a.test, with the message.
# shellcheck disable=SC2154  # try sets status and output
refuse_lines() {
  local conf message
  while IFS='|' read -r conf message; do
    check_config 'VhostLimit On' -v "a $conf"
    is "$status" 1 "$conf"
    [[ $output == *"$message"* ]] || is "$output" "$message"
  done
}

start_httpd() { # <as configure_httpd>...
  rm -rf "$HTTPD_ROOT"
  configure_httpd "$@"
  launch_httpd
}

# Builds a library of t/lib to preload, readable by the server, and prints its path.
preload_library() { # <name>
  local so=$BATS_FILE_TMPDIR/$1.so
  [[ -e $so ]] || cc -Wall -shared -fPIC -o "$so" "$TOP/t/lib/$1.c" -ldl
  chmod a+rx "$BATS_FILE_TMPDIR" "$BATS_TEST_TMPDIR" "$so"
  printf '%s\n' "$so"
}

start_preloaded() { # <name> <as start_httpd>...
  export LD_PRELOAD
  LD_PRELOAD=$(preload_library "$1")
  start_httpd "${@:2}"
  unset LD_PRELOAD
}

# Runs a command for another server of the file: its folder, its port.
on_server_named() { # <name> <command>...
  # shellcheck disable=SC2034  # the helpers read it
  local HTTPD_ROOT=$BATS_FILE_TMPDIR/$1/httpd BATS_FILE_TMPDIR=$BATS_FILE_TMPDIR/$1
  mkdir -p "$BATS_FILE_TMPDIR"
  chmod a+rx "${BATS_FILE_TMPDIR%/*}" "$BATS_FILE_TMPDIR"
  "${@:2}"
}

# A server that was killed may still have its port.
launch_httpd() {
  poll_until $((5 * SLOWER)) nothing_listens || :
  (detached "$(httpd_program)" -f "$HTTPD_ROOT/httpd.conf" -k start) >"$HTTPD_ROOT/start.out" 2>&1 ||
    { cat "$HTTPD_ROOT/start.out"; fail "server did not start"; show_log; return 1; }
  wait_until 10 httpd_ready || { show_log; return 1; }
}

httpd_pid() { local pid; { read -r pid <"$HTTPD_ROOT/run/httpd.pid"; } 2>/dev/null && echo "$pid"; }
httpd_up()  { local pid; { read -r pid <"$HTTPD_ROOT/run/httpd.pid" && kill -0 "$pid"; } 2>/dev/null; }

httpd_ready()     { httpd_up && (($(starts_logged) > 0)) && httpd_listens; }
httpd_listens()   { local port; port_of '' && { : <"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null; }
nothing_listens() { ! httpd_listens; }

# Prints how many starts and restarts the log has.
starts_logged() { grep -c 'resuming normal operations' "$HTTPD_ROOT/logs/error.log" 2>/dev/null || :; }

# In KB, for all processes; 0 with a sanitizer, which does not return freed memory.
memory_of() { # <pid>...
  local pid
  [[ ! ${VL_SANITIZER-} ]] || { echo 0; return; }
  for pid; do awk '/^VmRSS/ { print $2 }' "/proc/$pid/status"; done | awk '{ n += $1 } END { print n + 0 }'
}

# The parent's children that run httpd, one pid a line. The sampler is none.
httpd_children() {
  local pid exe
  exe=$(readlink "/proc/$(httpd_pid)/exe")
  tr ' ' '\n' <"/proc/$(httpd_pid)/task/$(httpd_pid)/children" | while read -r pid; do
    if [[ $(readlink "/proc/$pid/exe") == "$exe" && $(<"/proc/$pid/comm") != vl-sampler ]]; then echo "$pid"; fi
  done
}

# Microseconds of CPU time of the processes so far, with all their threads.
cpu_of() { # <pid>...
  local pid
  for pid; do cat /proc/"$pid"/task/*/schedstat; done | awk '{ sum += $1 } END { printf "%d\n", sum / 1000 }'
}

# The server's CPU time for the page, the least of nine times, in microseconds. Unlike the time
# that passes, it does not depend on what else the machine has to do.
page_cpu() { # <vhost> <path>
  local n before pids
  is "$(get "$@")" 200 || return
  mapfile -t pids < <(httpd_children; httpd_pid)
  for ((n = 0; n < 9; n++)); do
    before=$(cpu_of "${pids[@]}")
    get "$@" >/dev/null
    echo $(($(cpu_of "${pids[@]}") - before))
  done | sort -n | sed -n 1p
}

# The server that starts next is never dormant.
stay_engaged() { export VHOSTLIMIT_TEST_STATE=engaged; }
toggle_state() { export VHOSTLIMIT_TEST_STATE=toggled; }   # ... changes its state ten times a second

graceful_httpd() { signal_restart graceful; }
restart_httpd()  { signal_restart restart; }

signal_restart() { # <graceful | restart>
  local before
  before=$(starts_logged)
  (detached "$(httpd_program)" -f "$HTTPD_ROOT/httpd.conf" -k "$1") || fail "httpd -k $1"
  wait_until 15 restarted_since "$before"
}

restarted_since() { (($(starts_logged) > $1)) && httpd_listens; }

stop_httpd() {
  local pid
  pid=$(httpd_pid) || return 0
  release_all
  poll_until 2 all_closed || :
  kill -TERM "$pid" 2>/dev/null || return 0
  wait_until 15 gone "$pid"
}

# Returns 0 if the server has closed every connection that its client has closed. At SIGTERM
# the event MPM closes the sockets of its workers (close_worker_sockets() in httpd), and the
# child crashes when a worker frees one at that moment (docs/design/003-fair-accept.md).
all_closed() {
  local port close_wait=08
  port_of '' && printf -v port '%04X' "$port"
  [[ ! $(</proc/net/tcp) =~ :$port\ [0-9A-F]{8}:[0-9A-F]{4}\ $close_wait ]]
}

# Kills parent and child processes at once, as the kernel does when memory runs out.
crash_httpd() {
  local pid pids
  kill -STOP "$(httpd_pid)"     # no child begins after the list
  mapfile -t pids < <(httpd_children; httpd_pid)
  kill -KILL "${pids[@]}"
  for pid in "${pids[@]}"; do wait_until 20 gone "$pid"; done
  rm -f "$HTTPD_ROOT/run/httpd.pid"
}

# ---- checks when a server ends -----------------------------------------------

show_log() { tail -n 25 "$HTTPD_ROOT/logs/error.log" 2>/dev/null || :; }

error_log()      { cat "$HTTPD_ROOT/logs/error.log"; }
error_log_has() { grep -Eq -- "$1" "$HTTPD_ROOT/logs/error.log"; }  # <regular expression>

# All requests have ended, so none may be running or waiting in any account.
check_idle() {
  httpd_up && [[ -e $HTTPD_ROOT/htdocs/main && $(<"$HTTPD_ROOT/httpd.conf") == *'LoadModule vhostlimit_module'* ]] || return 0
  wait_until 10 no_request_runs || { status_json; show_log; return 1; }
}

# shellcheck disable=SC2154  # read_status sets status_text
no_request_runs() { read_status && [[ ! $status_text =~ \"(running|waiting|deferred)\":[1-9] ]]; }

# Fails if the log has an error of the module or a crash.
check_log() {
  local bad
  bad=$(grep -E '\[vhostlimit:(error|crit|alert|emerg)\]|exit signal|Assertion' "$HTTPD_ROOT/logs/error.log" 2>/dev/null) || return 0
  bad=$(grep -Ev "${LOG_MAY_SAY:-^$}" <<<"$bad") || return 0
  printf 'FAIL: the log has\n%s\n' "$bad" >&2
  return 1
}

check_cgroup_gone() {
  local path
  path=$(httpd_cgroup)
  wait_until 20 cgroup_gone "$path" && return
  cgroup_dirs "$path"
  cgroup_remove "$path"
  return 1
}
