#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Restarts under load lose no request, running or queued, and leak no memory. VL_LONG=1:
# 100 graceful restarts, 20 changes of the configuration and 200 stops.

load lib/live
load lib/tls
load lib/loaded

descriptors_of() { find "/proc/$1/fd" -mindepth 1 | wc -l; }

no_request_was_lost() {
  like "$(load_got)" '^[0-9]+ 200$'
  is "$(<"$BATS_TEST_TMPDIR/load/errors")" '' "errors of clients"
  wait_until 30 no_request_runs
}

@test "graceful restarts under load lose no request, and the parent does not grow: 6, in the long form 100" {
  requires event
  local times=$((${VL_LONG:-0} ? 100 : 6)) i pid had files
  start_httpd 'VhostLimit On' 'VhostLimitQueue 100 60s' 'GracefulShutdownTimeout 60' -v 'b VhostLimitConcurrency 2' -t 'StartServers 2' -t 'ServerLimit 24' \
    -t 'ThreadsPerChild 8' -t 'ThreadLimit 8' -t 'MaxRequestWorkers 32' -t 'MinSpareThreads 8' -t 'MaxSpareThreads 32'
  pid=$(httpd_pid)
  begin_load 3 a /page.html
  begin_crowd waiting 20 b /cgi/nap.sh
  for ((i = 0; i < times; i++)); do
    load_goes_on 20
    graceful_httpd
    ((i != 2)) || { had=$(memory_of "$pid"); files=$(descriptors_of "$pid"); }
  done
  end_load
  echo "# $(load_got), parent $had KB then $(memory_of "$pid") KB"
  no_request_was_lost
  is "$(crowd_got waiting)" '20 200'
  at_most "$(memory_of "$pid")" $((had + 1024 + times * 20)) "KB of the parent"
  is "$(descriptors_of "$pid")" "$files" "descriptors of the parent"
}

@test "graceful restarts under load over TLS, with a full queue, lose no request: 8, in the long form 100" {
  requires event openssl mod_ssl
  local times=$((${VL_LONG:-0} ? 100 : 8)) i
  start_tls 'VhostLimit On' 'GracefulShutdownTimeout 60' 's: VhostLimitConcurrency 2' 's: VhostLimitQueue 5 60s' -t 'StartServers 2' -t 'ServerLimit 24' \
    -t 'ThreadsPerChild 8' -t 'ThreadLimit 8' -t 'MaxRequestWorkers 32' -t 'MinSpareThreads 8' -t 'MaxSpareThreads 32'
  begin_load 8 s /page.html
  for ((i = 0; i < times; i++)); do load_goes_on 30; graceful_httpd; done
  load_goes_on 100
  end_load
  no_request_was_lost
}

@test "changes of the configuration under load lose no request: 4, in the long form 20" {
  requires event
  local times=$((${VL_LONG:-0} ? 20 : 4)) i orders=('c b a' 'a b c d' 'a b' 'e a f b' 'b a c')
  local more=(-t 'StartServers 2' -t 'ServerLimit 24' -t 'ThreadsPerChild 8' -t 'ThreadLimit 8' -t 'MaxRequestWorkers 32' -t 'MinSpareThreads 8'
    -t 'MaxSpareThreads 32' 'VhostLimit On' 'VhostLimitQueue 100 60s' 'GracefulShutdownTimeout 60')
  start_httpd "${more[@]}"
  begin_load 3 a /page.html
  for ((i = 0; i < times; i++)); do
    load_goes_on 20
    configure_httpd "${more[@]}" -o "${orders[i % 5]} n$i" -v "a VhostLimitConcurrency $((4 + i % 3))"
    graceful_httpd
    is "$(get "n$i" /)" 200 "a vhost that is new"
  done
  end_load
  no_request_was_lost
  is "$(status_of a requests)" "$(load_got | cut -d' ' -f1)" "what is counted"
}

@test "graceful restarts without load: the parent does not grow" {
  requires event cgroups
  local pid had
  start_httpd 'VhostLimit On'
  pid=$(httpd_pid)
  repeat 4 graceful_httpd
  had=$(memory_of "$pid")
  repeat 10 graceful_httpd
  at_most "$(memory_of "$pid")" $((had + 160)) "KB of the parent"
}

# Stops the server while clients send requests. Sets crashes to the number of children that
# crashed.
stop_under_load() { # <stops> [<argument of start_httpd>]...
  local stops=$1 pid
  crashes=0
  shift
  while ((stops-- > 0)); do
    start_httpd "$@"
    begin_load 0 a /page.html
    also_load ab -q -r -c 16 -n 100000 -H 'Host: a.test' "http://127.0.0.1:$(httpd_port)/page.html"
    time_passes 200
    pid=$(httpd_pid)
    kill -TERM "$pid"
    wait_until 15 gone "$pid"
    end_load
    crashes=$((crashes + $(grep -c 'exit signal' "$HTTPD_ROOT/logs/error.log" || :)))
  done
}

@test "stops under load: children crash no more often than with plain Apache, 100 stops each" {
  requires long event ab
  local plain crashes
  export LOG_MAY_SAY='exit signal Segmentation fault'
  stop_under_load 100 -n
  plain=$crashes
  stop_under_load 100 'VhostLimit On'
  echo "# children that crashed: plain Apache $plain, with the module $crashes" >&3
  at_most "$crashes" $((3 * plain + 5)) "children that crashed"
}
