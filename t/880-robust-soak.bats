#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Varying load for VL_SOAK seconds (4): memory, descriptors, threads, counts, and the CPU
# time of a light vhost's request do not grow. Then load
# of all kinds at once, with restarts, for as long (2).

load lib/live
load lib/loaded
load lib/tls

processes() { httpd_pid; httpd_children; }    # prints pids

# Prints memory in KB, descriptors and threads of all processes, and the CPU time of twenty
# requests of the light vhost in us.
sample() {
  local pid spent
  # shellcheck disable=SC2046  # one word each
  printf '%d ' "$(memory_of $(processes))"
  for pid in $(processes); do find "/proc/$pid/fd" -mindepth 1; done | wc -l
  for pid in $(processes); do find "/proc/$pid/task" -mindepth 1 -maxdepth 1; done | wc -l
  spent=$(status_of b cpu_us)
  web -o /dev/null "$(url b '/page.html?[1-20]')"
  wait_until 10 status_is b running 0
  echo $(($(status_of b cpu_us) - spent))
}

quiet_sample() { # after a round: waits until no request runs, then prints the numbers in a line
  wait_until 30 no_request_runs
  sample | xargs
}

kb_by_tenths() { awk '{ kb[NR] = $1 } END { for (i = 1; i <= 10; i++) printf "%d ", kb[int(NR * i / 10) + (NR * i < 10)] }' "$BATS_TEST_TMPDIR/samples"; }

# Few clients or many, static files or programs, queued requests and aborted ones.
one_round() { # <number>
  begin_load $((1 + $1 % 4)) a "$( (($1 % 2)) && echo /page.html || echo /cgi/nap.sh)"
  (crowd 20 'GET /cgi/nap.sh HTTP/1.1\r\nHost: c.test\r\nConnection: close\r\n\r\n' >>"$BATS_TEST_TMPDIR/crowds") 3>&- 4>&- &
  local crowd=$!
  abort_request a /big.bin
  load_goes_on 40
  wait "$crowd"
  end_load
}

@test "varying load: memory, descriptors, threads, counts and the cost of a light vhost's request are flat" {
  local end=$((SECONDS + ${VL_SOAK:-$((${VL_LONG:-0} ? 900 : 4))})) i=0 first last
  start_httpd -t 'StartServers 2' -t 'ServerLimit 2' -t 'ThreadLimit 16' -t 'ThreadsPerChild 16' -t 'MaxRequestWorkers 32' \
    -t 'MinSpareThreads 1' -t 'MaxSpareThreads 32' 'VhostLimit On' 'VhostLimitQueue 100 60s' -v 'c VhostLimitConcurrency 2'
  repeat 2 one_round 3
  read -ra first < <(quiet_sample)
  while ((SECONDS < end || i < 4)); do
    one_round $((i++))
    quiet_sample >>"$BATS_TEST_TMPDIR/samples"
  done
  read -ra last < <(tail -n 1 "$BATS_TEST_TMPDIR/samples")
  echo "# $i rounds: KB, descriptors, threads, us: first ${first[*]}, last ${last[*]}"
  echo "# KB after each tenth of them: $(kb_by_tenths)"
  is "$(cut -d' ' -f2 "$BATS_TEST_TMPDIR/crowds" | sort -u)" 200 "requests queued in c"
  at_most "${last[0]}" $((first[0] * 11 / 10 + 4096)) "KB"
  at_most "${last[1]}" $((first[1] + 20)) "descriptors"
  at_most "${last[2]}" $((first[2] + 2)) "threads"
  at_most "${last[3]}" $((first[3] * 5 + 5000)) "us of CPU time for twenty requests of the light vhost"
}

slow_request() { packets 'GET /page.ht' @150 'ml HTTP/1.1\r\nHo' @150 'st: c.test\r\nConnection: close\r\n\r\n' @until:page; }

@test "clients of all kinds at once, through graceful restarts: no well-behaved client gets an error" {
  requires ab h2load mod_http2 mod_ssl openssl
  local end=$((SECONDS + ${VL_SOAK:-$((${VL_LONG:-0} ? 900 : 2))})) i=0 plain
  plain=http://127.0.0.1:$(httpd_port)/page.html
  start_tls -l http2 'Protocols h2 h2c http/1.1' -t 'StartServers 2' -t 'ServerLimit 24' -t 'ThreadLimit 16' -t 'ThreadsPerChild 16' -t 'MaxRequestWorkers 64' \
    -t 'MinSpareThreads 8' -t 'MaxSpareThreads 64' 'VhostLimit On' 'VhostLimitQueue 100 60s' 'GracefulShutdownTimeout 60' -v 'b VhostLimitConcurrency 1' -v 'c VhostLimitConcurrency 1'
  begin_load 2 b /page.html
  also_load ab -q -r -k -s 5 -n 200 -c 4 -H 'Host: a.test' "$plain"
  also_load timeout 10 h2load -n 200 -c 2 -m 4 "$plain"
  also_load web -o /dev/null "$(url s '/page.html?[1-20]')"
  also_load slow_request
  also_load abort_request a /big.bin
  while ((SECONDS < end || i < 2)); do
    load_goes_on 20
    graceful_httpd
    i=$((i + 1))
  done
  end_load
  echo "# $i restarts, $(load_got), $(status_of a requests) in a, $(status_of c requests) in c"
  like "$(load_got)" '^[0-9]+ 200$' "well-behaved clients"
  is "$(<"$BATS_TEST_TMPDIR/load/errors")" '' "their errors"
  wait_until 30 no_request_runs
}
