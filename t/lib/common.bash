# SPDX-License-Identifier: Apache-2.0
#
# For every test: requirements, assertions, waiting. The server is in httpd.bash.

TOP=$(cd -- "${BASH_SOURCE[0]%/*}/../.." && pwd)
export TOP LC_ALL=C

# shellcheck source-path=SCRIPTDIR source=../../tools/lib/poll.sh
. "$TOP/tools/lib/poll.sh"
# Reading from a pipe that stays empty is a pause without a process.
exec {poll_pipe}<> <(:)
poll_pause() { read -r -t "$1" -u "$poll_pipe"; }

# Bats traces every command in a DEBUG trap, for the line number of a failure. A
# trace costs 0.1 ms or more. Commands of helpers are not traced: polling would use most
# of a CPU for its traces, and a failure should name the test's line anyway. Bats sets the
# trap after it has read the test file.
trace_tests_only() { trap '[[ $BASH_SOURCE == */@(t|tools)/lib/* ]] || bats_debug_trap "$BASH_SOURCE"' DEBUG; }
if declare -F bats_setup_tracing >/dev/null && ! declare -F bats_begin_tracing >/dev/null; then
  eval "bats_begin_tracing() $(declare -f bats_setup_tracing | sed 1d)"
  bats_setup_tracing() { bats_begin_tracing && trace_tests_only; }
  [[ $(trap -p DEBUG) != *bats_debug_trap* ]] || trace_tests_only
fi

# Everything takes about ten times as long in an emulated machine of tools/v2.sh, and up to five
# times with a sanitizer. Time limits are multiplied by this.
SLOWER=1
[[ -z ${VL_SANITIZER-} ]] || SLOWER=3
[[ -z ${VL_GUEST-} || $VL_GUEST == native ]] || SLOWER=6

# Skips the test unless all requirements are met, and prints all reasons, not only the
# first. An unknown word fails the test.
requires() { # <word>...
  local word why reasons=()
  for word; do
    case $word in
      mod_*) why=$(need_module "$word") || reasons+=("$why") ;;
      *)
        declare -F "need_$word" >/dev/null || fail "requires: unknown word '$word'"
        why=$("need_$word") || reasons+=("$why")
        ;;
    esac
  done
  ((${#reasons[@]} == 0)) || skip "$(join '; ' "${reasons[@]}")"
}

# For setup_file, which cannot skip in bats 1.8: returns 1 unless all requirements are met. The file's
# setup has to require the same.
meets() { (skip() { exit 1; }; requires "$@"); }       # <word>...

# Long tests run in the jobs of "tools/check.sh --all" only.
need_long()       { [[ ${VL_LONG:-0} != 0 ]] || { echo "long: tools/check.sh --all"; return 1; }; }
need_root()       { ((EUID == 0)) || { echo "not root"; return 1; }; }
need_event()      { [[ ${VL_MPM:-event} == event ]] || { echo "VL_MPM: not event"; return 1; }; need_module mod_mpm_event; }
need_worker()     { need_module mod_mpm_worker; }
need_prefork()    { need_module mod_mpm_prefork; }
need_cgroups()    { need_root && cgroup_usable; }
need_cpu()         { cgroup_has cpu; }
need_memory()      { cgroup_has memory; }
need_pids()        { cgroup_has pids; }
need_io()          { cgroup_has blkio io; }
need_phpcgi()     { need_program php-cgi; }
need_mariadb()     { need_program mariadb-install-db && need_program mariadb; }
need_postgresql()  { compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || need_program initdb; }
need_gunicorn()   { need_program gunicorn; }
need_tomcat()      { compgen -G '/usr/share/tomcat*/bin/catalina.sh' >/dev/null || { echo "no tomcat"; return 1; }; }
need_uwsgi()      { [[ $(uwsgi --plugin python3 --version 2>&1) == *2.* ]] || { echo "no uwsgi with python3"; return 1; }; }
need_php_fpm()    { php_fpm_program >/dev/null || { echo "no php-fpm"; return 1; }; }
need_valgrind()   { need_program valgrind; }
need_ab()         { need_program ab; }
need_promtool()   { need_program promtool; }
need_prometheus() { need_program prometheus; }
need_h2load()     { need_program h2load; }
need_openssl()    { need_program openssl; }
need_shellcheck() { need_program shellcheck; }
need_wrk()        { need_program wrk; }
need_siege()      { need_program siege; }
need_sar()        { need_program sar; }
need_sshd()       { [[ -x /usr/sbin/sshd ]] || { echo "no sshd"; return 1; }; }
need_netns()      { (ip netns add vlt-probe && ip netns del vlt-probe) 2>/dev/null || { echo "no network namespaces"; return 1; }; }
need_git()        { git -C "$TOP" rev-parse --git-dir >/dev/null 2>&1 || { echo "not a git work tree"; return 1; }; }
need_nghttp()     { need_program nghttp; }
need_haproxy()    { need_program haproxy; }
need_nginx()      { need_program nginx; }
need_git_http()   { [[ -x $(git --exec-path 2>/dev/null)/git-http-backend ]] || { echo "no git-http-backend"; return 1; }; }
need_program()    { command -v "$1" >/dev/null || { echo "no $1"; return 1; }; }
need_module()     { [[ -e $(httpd_module_dir)/$1.so ]] || { echo "no $1.so"; return 1; }; }
need_curl_http2() { [[ $(curl -qV) == *HTTP2* ]] || { echo "curl without HTTP/2"; return 1; }; }

php_fpm_program() {
  local p
  for p in php-fpm /usr/sbin/php-fpm /usr/sbin/php-fpm[0-9]*; do
    command -v "$p" && return
  done
  return 1
}

fail() { # <message>...
  printf 'FAIL: %s\n' "$*" >&2
  return 1
}

is() { # <got> <want> [what]
  [[ $1 == "$2" ]] && return
  printf 'FAIL: %s\n   got: %s\n  want: %s\n' "${3:-value}" "$1" "$2" >&2
  return 1
}

isnt() { # <got> <unwanted> [what]
  [[ $1 != "$2" ]] && return
  printf 'FAIL: %s\n   got what was not wanted: %s\n' "${3:-value}" "$1" >&2
  return 1
}

like() { # <got> <extended regular expression> [what]
  [[ $1 =~ $2 ]] && return
  printf 'FAIL: %s\n    got: %s\n  match: %s\n' "${3:-value}" "$1" "$2" >&2
  return 1
}

at_least() { # <got> <bound> [what]
  (($1 >= $2)) && return
  printf 'FAIL: %s\n       got: %s\n  at least: %s\n' "${3:-value}" "$1" "$2" >&2
  return 1
}

at_most() { # <got> <bound> [what]
  (($1 <= $2)) && return
  printf 'FAIL: %s\n      got: %s\n  at most: %s\n' "${3:-value}" "$1" "$2" >&2
  return 1
}

# Like run of bats, but prints command, output and status for the log of a failed test.
# A program, unlike a function, is ended after a minute.
try() { # <command>...   sets $status and $output
  if declare -F "$1" >/dev/null; then run "$@"; else run timeout $((60 * SLOWER)) "$@"; fi
  # shellcheck disable=SC2154  # bats' run sets them
  printf '$ %s\n%s\n[status %s]\n' "$*" "$output" "$status"
}

# Repeats the command until it succeeds; fails after three times the given time, which is enough
# on a quiet machine. Other tests and other machines of the same host may use the processors.
wait_until() { # <seconds> <command>...
  local limit=$((3 * $1 * SLOWER))
  poll_until "$limit" "${@:2}" || fail "gave up after $limit s: ${*:2}"
}

# Waits, for a state that has to last for a while, or for a timeout in the server.
time_passes() { wait_until $(($1 / 1000 + 1)) moment_is_over $((${EPOCHREALTIME/./} + $1 * 1000)); }   # <ms>
# Prints how long the command takes, in milliseconds.
milliseconds() { # <command>...
  local start=${EPOCHREALTIME/./}
  "$@" >&2
  echo $(((${EPOCHREALTIME/./} - start) / 1000))
}
moment_is_over() { ((${EPOCHREALTIME/./} >= $1)); }

# A zombie counts as gone.
gone() { # <pid>
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
  [[ ${stat##*) } == [ZX]* ]]
}

# Sends the signal until the tool has ended. Bash 5.2 can lose a signal that arrives in
# certain moments of a command substitution, about one of a hundred in a loop of nothing else.
signal_until_gone() { # <signal> <pid> [<seconds>]
  wait_until "${3-120}" signalled "$1" "$2"
}
signalled() { gone "$2" || { kill "-$1" "$2" 2>/dev/null; poll_until 3 gone "$2"; }; }

# Suspends processes with SIGSTOP. The kernel stops the threads one after the other, so the
# last one may accept a connection after kill has returned.
suspend() { # <pid>...
  kill -STOP "$@"
  wait_until 10 suspended "$@"
}
suspended() { # <pid>...
  local pid states
  for pid in "$@"; do
    states=$(sed 's/.*) \(.\).*/\1/' "/proc/$pid/task/"*/stat 2>/dev/null) && [[ -n $states && -z ${states//[T$'\n']/} ]] || return
  done
}

join() { # <separator> <word>...
  local sep=$1 text=${2:-}
  shift 2
  printf '%s' "$text" "${@/#/$sep}"
}

# Runs a command without the descriptors that bats waits for at the end.
detached() { # <command>...
  local fd
  for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    ((fd < 3)) || eval "exec $fd>&-" 2>/dev/null || :
  done
  exec "$@"
}

repeat() { # <times> <command>...
  local n=$1
  while ((n-- > 0)); do "${@:2}"; done
}
