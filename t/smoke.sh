#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: a short test of the module on any Apache: starts, classifies by Host, shares
#          between two loaded sites, restarts gracefully under load, answers its status
#          page, stops. With the event MPM also: kept connections wait without a thread.
#          Needs Apache, curl 7.66 or newer and bash; prints TAP.
# Usage:   smoke.sh [OPTION]...
#   -p FILE  the Apache program (default: apache2 or httpd on PATH)
#   -d DIR   the folder of its modules (default: where Debian or Red Hat has it)
#   -m FILE  the module (default: mod_vhostlimit.so in that folder)
#   -M MPM   event (default), worker or prefork; any other one is expected to be unknown
#            to the module, which must then say so once and stay out of the way
#   -u USER  run Apache's children as this user (default: www-data, apache or nobody)
#   -h, --help, --version
# It listens on a free port of 127.0.0.1, writes only below a temporary folder, and
# takes about 10 seconds.
# Exit:    0 all passed; 1 a test failed; 2 usage; 77 cannot run here

set -uo pipefail

say()    { printf 'smoke.sh: %s\n' "$*" >&2; }
cannot() { say "$*"; exit 77; }
misuse() { say "$*"; echo "Try 'smoke.sh --help'." >&2; exit 2; }

# ---- TAP ---------------------------------------------------------------------

tests=0 failed=0
result() { # <status> <name> [explanation]
  tests=$((tests + 1))
  if (($1 == 0)); then
    echo "ok $tests - $2"
  else
    failed=$((failed + 1))
    echo "not ok $tests - $2"
    [[ -z ${3-} ]] || printf '# %s\n' "${3//$'\n'/$'\n# '}"
  fi
}

# ---- the server --------------------------------------------------------------

first_of() { # <path>...: the first that exists
  local path
  for path; do [[ ! -e $path ]] || { printf '%s\n' "$path"; return; }; done
  return 1
}

load_line() { # <module name>: nothing if it is compiled in
  [[ ! -e $modules/mod_$1.so ]] || printf 'LoadModule %s_module "%s/mod_%s.so"\n' "$1" "$modules" "$1"
}

write_configuration() { # <port>
  local name
  {
    printf 'ServerRoot "%s"\nPidFile "%s/pid"\nDefaultRuntimeDir "%s"\nListen 127.0.0.1:%s\nServerName main.test\n' \
      "$work" "$work" "$work" "$1"
    for name in "mpm_$mpm" authz_core unixd log_config mime dir alias cgi; do load_line "$name"; done
    printf 'LoadModule vhostlimit_module "%s"\n' "$module"
    if ((EUID == 0)); then printf 'User %s\nGroup %s\n' "$user" "$(id -gn "$user")"; fi
    case $mpm in
      prefork) printf '%s\n' 'StartServers 4' 'MinSpareServers 4' 'ServerLimit 64' 'MaxRequestWorkers 64' ;;
      event | worker) printf '%s\n' 'StartServers 2' 'ServerLimit 8' 'ThreadsPerChild 16' 'MinSpareThreads 8' \
        'MaxSpareThreads 64' 'MaxRequestWorkers 64' ;;
    esac
    cat <<END
TypesConfig /dev/null
DirectoryIndex index.html
ErrorLog "$work/error.log"
LogLevel notice
LogFormat "%v %U %>s" sites
CustomLog "$work/access.log" sites
Timeout 30
KeepAliveTimeout 30
VhostLimit On
VhostLimitSlots 2
VhostLimitQueue 1000 1min
VhostLimitCgroup $cgroup
<Directory "$work">
  Require all granted
</Directory>
ScriptAlias /slow "$work/slow.sh"
ScriptAlias /hold "$work/hold.sh"
<VirtualHost 127.0.0.1:$1>
  ServerName status.test
  VhostLimit Off
  <Location "/status">
    SetHandler vhostlimit-status
  </Location>
</VirtualHost>
END
    for name in a b; do
      printf '<VirtualHost 127.0.0.1:%s>\n  ServerName %s.test\n  DocumentRoot "%s/%s"\n</VirtualHost>\n' \
        "$1" "$name" "$work" "$name"
    done
  } >"$work/httpd.conf"
}

control() { "$program" -d "$work" -f "$work/httpd.conf" "$@"; }

start() { # tries ports until one is free
  local tries=5 output
  while ((tries-- > 0)); do
    port=$((20000 + RANDOM % 30000))
    write_configuration "$port"
    : >"$work/error.log"
    output=$(control -k start 2>&1) && within 10 answers a 200 && return
    [[ $output$(<"$work/error.log") == *'Address already in use'* ]] || break
  done
  printf '%s\n' "$output"
  cat "$work/error.log"
  return 1
}

stop() {
  local pid
  pid=$(cat "$work/pid" 2>/dev/null) || return 0
  control -k stop 2>/dev/null
  within 20 ended "$pid" || kill -KILL "$pid" 2>/dev/null
}

ended()   { ! kill -0 "$1" 2>/dev/null; } # <pid>
answers() { [[ $(get "$1" / -o /dev/null -w '%{http_code}') == "$2" ]]; }     # <site> <status>
get()     { curl -sS -m 20 --noproxy '*' -H "Host: $1.test" "${@:3}" "http://127.0.0.1:$port$2" 2>>"$work/curl.log"; } # <site> <path> [option]...

within() { # <seconds> <command>...
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}

cell() { # <site> <key>: one number of the status page, 0 if the page does not have it
  local value
  value=$(get status '/status?json' | sed -nE "/^\{\"name\":\"$1\\.test/ { s/\"$2\":([0-9]+)/\n\1\n/; s/^[^\n]*\n//; s/\n.*//p; }")
  echo "${value:-0}"
}

# ---- tests -------------------------------------------------------------------

test_classifies() {
  local name before after
  for name in a b; do
    before=$(cell "$name" requests)
    [[ $(get "$name" /) == "site $name" ]] || { echo "wrong page for $name.test"; return 1; }
    after=$(cell "$name" requests)
    ((after == before + 1)) || { echo "$name.test counts $before requests before and $after after one request"; return 1; }
  done
}

# 120 requests of a, two at a time, and 10 of b that come while a's are queued. Without
# shares b's would all be answered after a's. The last one waits for 6.5 s, and longer on a
# machine that stalls: the default of VhostLimitQueue would refuse it after 10 s.
test_shares() {
  local behind
  parallel a 120 120 /slow >"$work/load.a" &
  within 10 queued_at_least a 20 || { echo "the requests of a.test do not queue: $(cell a waiting) waiting"; wait; return 1; }
  parallel b 10 10 /slow >"$work/load.b"
  behind=$((120 - $(grep -c '/slow 200$' <(grep '^a.test ' "$work/access.log"))))
  wait
  [[ $(sort -u "$work/load.a" "$work/load.b") == 200 ]] || { echo "answers: $(sort "$work/load.a" "$work/load.b" | uniq -c)"; return 1; }
  ((behind >= 10)) || { echo "b.test's 10 requests were answered when a.test had only $behind of 120 left"; return 1; }
}
queued_at_least() { (($(cell "$1" waiting) >= $2)); } # <site> <number>

parallel() { # <site> <number> <at a time> <path>: the status of each answer
  # curl makes many requests of a pattern; [1-N] is a query that pages ignore
  curl -sS -m 60 --noproxy '*' --no-progress-meter -Z --parallel-immediate --parallel-max "$3" \
    -H "Host: $1.test" -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:$port$4?[1-$2]" 2>>"$work/curl.log"
}

# Further requests of 80 kept connections are queued while two requests hold both slots. The
# server has 64 threads, and one of them answers the status page meanwhile.
test_leases() {
  local kept=() fd i failed=0
  for ((i = 0; i < 80; i++)); do
    exec {fd}<>"/dev/tcp/127.0.0.1/$port" || return
    kept+=("$fd")
    ask "$fd"
  done
  for fd in "${kept[@]}"; do answered "$fd" || failed=$((failed + 1)); done
  ((failed == 0)) || { echo "$failed of 80 first requests failed"; return 1; }
  sleep 0.2     # unused credit of a lease lasts for 20 ms
  parallel b 2 2 /hold >"$work/load.b" &
  within 10 runs b 2 || echo "b.test does not hold both slots: $(cell b running) running"
  for fd in "${kept[@]}"; do ask "$fd"; done
  within 10 queued_at_least a 80 || { echo "of 80 further requests $(cell a waiting) are queued"; failed=80; }
  : >"$work/go"
  for fd in "${kept[@]}"; do answered "$fd" || { echo "a further request was not answered"; failed=1; break; }; done
  wait
  [[ $failed == 0 && $(sort -u "$work/load.b") == 200 ]]
}
ask()  { printf 'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n' >&"$1"; }   # <descriptor>
runs() { (($(cell "$1" running) == $2)); }     # <site> <number>
answered() { # <descriptor>: reads one response
  local line status
  read -r -t 20 -u "$1" line || return
  status=$line
  until [[ $line == $'\r' ]]; do read -r -t 20 -u "$1" line || return; done
  read -r -t 20 -u "$1" line || return
  [[ $status == 'HTTP/1.1 200 '* && $line == 'site a' ]]
}

test_restarts() {
  local loops=() i
  for i in 1 2 3 4; do
    request_until_stopped "$((i % 2))" >"$work/restart.$i" &
    loops+=($!)
  done
  for i in 1 2 3; do
    control -k graceful || { echo "restart $i failed"; break; }
    within 10 generation_is "$i" || echo "restart $i did not end"
    sleep 0.3
  done
  : >"$work/stop"
  wait "${loops[@]}"
  rm -f "$work/stop"
  i=$(cat "$work"/restart.* | wc -l)
  # Few requests: the worker MPM before 2.4.63 stalls for seconds, also without the module.
  [[ $(cat "$work"/restart.* | sort -u) == 200 && $i -ge 4 ]] && return
  cat "$work"/restart.* | sort | uniq -c
  tail -n 3 "$work/curl.log"
  return 1
}
generation_is() { (($(grep -c 'resuming normal operations' "$work/error.log") > $1)); }

request_until_stopped() { # <0 or 1>
  local sites=(a b)
  while [[ ! -e $work/stop ]]; do
    get "${sites[$1]}" / -o /dev/null -w '%{http_code}\n' || echo "curl: $?"
  done
}

test_status() {
  local page
  page=$(get status /status)
  [[ $page == *'<html'*'</html>'* ]] || { echo "there is no page"; return 1; }
  page=$(get status '/status?json')
  [[ $page == '{'*'"vhosts":'*a.test*'}'* ]] || { echo "the JSON does not name the sites: ${page:0:200}"; return 1; }
  page=$(get status '/status?prometheus')
  [[ $page == *vhostlimit_*a.test* ]] || { echo "the metrics do not name the sites"; return 1; }
}

test_stops() {
  local pid
  pid=$(<"$work/pid")
  control -k stop
  within 20 ended "$pid" || { echo "process $pid has not ended after 20 s"; return 1; }
}

# No crash, and nothing above a warning, but for what the MPM says of itself. AH00546 is the
# MPM's count of generations: prefork 2.4.33 logs it at most restarts, also without the module.
test_log() {
  ! grep -vE '\[mpm_[a-z]+:|AH00546' "$work/error.log" | grep -E 'Segmentation|exit signal|:(emerg|alert|crit|error)\]'
}

test_unknown_mpm() { # once each time the configuration is read
  local said
  said=$(grep -c 'VL0034.*MPM' "$work/error.log")
  ((said == $1)) || { echo "VL0034 $said times in the log, not $1"; cat "$work/error.log"; return 1; }
}

test_serves() { # as plain Apache
  local name
  for name in a b; do
    [[ $(get "$name" /) == "site $name" ]] || { echo "wrong page for $name.test"; return 1; }
  done
}

# Without load: motorz (httpd 2.5.1-dev) loses requests, and crashes now and then, when it
# is restarted, also without the module.
test_serves_on() {
  local i
  for i in 1 2 3; do
    if ! control -k graceful || ! within 10 generation_is "$i" || ! within 10 test_serves; then
      echo "not after restart $i"
      return 1
    fi
  done
}

run_test() { # <name> <command>...
  local name=$1 output status=0
  shift
  output=$("$@" 2>&1) || status=$?
  result "$status" "$name" "$output"
}

# ---- main --------------------------------------------------------------------

finish() {
  stop
  rm -rf "$work"
}

prepare() {
  local name
  [[ -n ${program:=$(command -v apache2 || command -v httpd)} && -x $program ]] || cannot "no Apache here; name its program with -p"
  [[ -n ${modules:=$(first_of /usr/lib/apache2/modules /usr/lib64/httpd/modules /usr/lib/httpd/modules)} ]] ||
    cannot "no folder with Apache's modules here; name it with -d"
  module=$(realpath "${module:-$modules/mod_vhostlimit.so}")
  [[ -e $module ]] || cannot "there is no $module; name the module with -m"
  [[ -e $modules/mod_mpm_$mpm.so ]] || cannot "this Apache has no mod_mpm_$mpm.so in $modules"
  command -v curl >/dev/null || cannot "curl is not installed"
  curl --help all 2>/dev/null | grep -e '--parallel' >/dev/null || curl --help | grep -e '--parallel' >/dev/null ||
    cannot "curl is older than 7.66 and has no --parallel"
  for name in www-data apache nobody; do
    [[ -n ${user-} ]] || ! id "$name" >/dev/null 2>&1 || user=$name
  done
  work=$(mktemp -d)
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  chmod 755 "$work"
  # Groups of its own: another server here may use the default path.
  cgroup=/vl-smoke-$$-$RANDOM
  ((EUID == 0)) || cgroup=off
  mkdir "$work/a" "$work/b"
  echo 'site a' >"$work/a/index.html"
  echo 'site b' >"$work/b/index.html"
  printf '#!/bin/sh\nsleep 0.1\nprintf "Content-Type: text/plain\\n\\nslow\\n"\n' >"$work/slow.sh"
  printf '#!/bin/sh\nuntil [ -e "%s/go" ]; do sleep 0.1; done\nprintf "Content-Type: text/plain\\n\\nheld\\n"\n' "$work" >"$work/hold.sh"
  chmod 755 "$work/slow.sh" "$work/hold.sh"
}

main() {
  mpm=event program='' modules='' module='' user='' port=''
  local output
  while (($#)); do
    case $1 in
      -h | --help) sed -n '3,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
      --version) sed -n 's/^AC_INIT(\[\(.*\)\], \[\(.*\)\])$/\1 \2/p' "${BASH_SOURCE[0]%/*}/../configure.ac"; exit 0 ;;
      -[pdmMu])
        (($# > 1)) || misuse "$1 needs a value"
        case $1 in -p) program=$2 ;; -d) modules=$2 ;; -m) module=$2 ;; -M) mpm=$2 ;; -u) user=$2 ;; esac
        shift
        ;;
      *) misuse "unknown option $1" ;;
    esac
    shift
  done
  prepare
  echo "# $("$program" -v | sed -n 's/^Server version: //p'), MPM $mpm, module $module"
  if ! output=$(start; status=$?; printf '\n%s' "$port"; exit "$status"); then
    result 1 "starts" "$output"
    echo "1..$tests"
    exit 1
  fi
  port=${output##*$'\n'}
  result 0 "starts"
  case $mpm in
    event | worker | prefork)
      run_test "classifies by Host" test_classifies
      run_test "two loaded sites share the server" test_shares
      # worker and prefork cannot park connections
      [[ $mpm != event ]] || run_test "more kept connections than threads wait for a lease" test_leases
      run_test "no request fails in three graceful restarts under load" test_restarts
      run_test "the status page answers in each format" test_status
      ;;
    *)
      run_test "logs once that it does not support the MPM" test_unknown_mpm 1
      run_test "both sites are served" test_serves
      run_test "the log has no error and no crash" test_log
      run_test "both sites are served after each of three graceful restarts" test_serves_on
      run_test "logs that once for each restart" test_unknown_mpm 4
      ;;
  esac
  run_test "stops" test_stops
  case $mpm in event | worker | prefork) run_test "the log has no error and no crash" test_log ;; esac
  echo "1..$tests"
  ((failed == 0))
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
