#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Restarts: counts and limits of requests that run through a restart, by name of the site.

load lib/live
load lib/control
load lib/fault

accounts() { status_json | jq -r '[.vhosts[].name | sub("\\..*"; "")] | sort | join(" ")'; }

@test "requests of the old generation are counted after a graceful restart" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 2'
  hold_request one; hold_request two
  graceful_httpd
  is "$(status_of a running)" 2
  is "$(get a /)" 503
  release_request one
  is "$(answer_of one)" 200 "the request that ran through the restart"
  settles a running 1
  is "$(get a /)" 200
}

@test "a graceful restart keeps the counters" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1'
  hold_request one
  is "$(get a /) $(get b /)" '503 200'
  graceful_httpd
  is "$(status_of a requests) $(status_of a refused) $(status_of b requests)" '1 1 1'
}

@test "a new limit applies after a graceful restart, and counts old requests" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 3'
  hold_request one; hold_request two
  configure_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 2'
  graceful_httpd
  is "$(status_of a concurrency) $(get a /)" '2 503'
  configure_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 3'
  graceful_httpd
  is "$(get a /)" 200
}

@test "accounts follow the name when vhosts change their order" {
  start_httpd 'VhostLimit On'
  hold_request one a; hold_request two b; hold_request three b
  configure_httpd 'VhostLimit On' -o 'c b a'
  graceful_httpd
  is "$(status_of a running) $(status_of b running) $(status_of c running)" '1 2 0'
  release_request two
  settles b running 1
  is "$(status_of a running) $(status_of c running)" '1 0'
}

@test "a graceful restart adds and removes vhosts" {
  start_httpd 'VhostLimit On'
  is "$(accounts)" 'a b c main'
  configure_httpd 'VhostLimit On' -o 'd a c'
  graceful_httpd
  is "$(get d /)" 200
  settles d requests 1
  is "$(accounts)" 'a c d main'
}

@test "a running vhost that is removed and added again keeps its count" {
  start_httpd 'VhostLimit On'
  hold_request one b
  configure_httpd 'VhostLimit On' -o 'a c'
  graceful_httpd
  configure_httpd 'VhostLimit On' -o 'a b c'
  graceful_httpd
  is "$(status_of b running)" 1
  release_request one
  settles b running 0
}

@test "twenty graceful restarts that add and remove vhosts keep the accounts right" {
  start_httpd 'VhostLimit On'
  local i
  for i in {1..20}; do
    configure_httpd 'VhostLimit On' -o "n$i a m$i x$((i % 3))"
    graceful_httpd
    is "$(get "n$i" /) $(get a /)" '200 200' "round $i"
  done
  is "$(accounts)" 'a m20 main n20 x2'
  settles a requests 20
}

@test "a vhost that is set to Off with a running request has none running later" {
  start_httpd 'VhostLimit On'
  hold_request one
  configure_httpd 'VhostLimit On' -v 'a VhostLimit Off'
  graceful_httpd
  release_request one
  configure_httpd 'VhostLimit On'
  graceful_httpd
  settles a running 0
}

# Apache waits ten seconds for busy threads, so the programs end after it has begun to
# stop.
restart_while_they_end() {
  restart_httpd 3>&- 4>&- &
  wait_until 10 error_log_has 'SIGHUP received'
  release_request one
  release_request two
  wait "$!"
}

@test "a full restart ends running requests, and the running count is 0" {
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 2'
  hold_request one; hold_request two
  restart_while_they_end
  is "$(status_of a running)" 0
  is "$(get a /)" 200
}

@test "a graceful restart under load loses no request from the counts" {
  requires ab
  start_httpd 'VhostLimit On'
  ab -q -n 3000 -c 4 -H 'Host: a.test' "http://127.0.0.1:$(httpd_port)/page.html" >"$BATS_TEST_TMPDIR/ab" 3>&- 4>&- &
  wait_until 20 requests_pass 300;  graceful_httpd
  wait_until 20 requests_pass 1200; graceful_httpd
  wait $!
  like "$(<"$BATS_TEST_TMPDIR/ab")" 'Failed requests: +0'
  settles a requests 3000
  settles a running 0
}
requests_pass() { (($(status_of a requests) > $1)); }

@test "a graceful restart with an invalid configuration changes nothing" {
  start_httpd 'VhostLimit On'
  hold_request one
  cp "$HTTPD_ROOT/httpd.conf" "$HTTPD_ROOT/good.conf"
  echo 'VhostLimitConcurrency nonsense' >>"$HTTPD_ROOT/httpd.conf"
  try "$(httpd_program)" -f "$HTTPD_ROOT/httpd.conf" -k graceful
  isnt "$status" 0
  mv "$HTTPD_ROOT/good.conf" "$HTTPD_ROOT/httpd.conf"
  is "$(status_of a running)" 1
}

@test "graceful-stop lets a request finish, and the server ends" {
  start_httpd 'VhostLimit On'
  local pid
  pid=$(httpd_pid)
  hold_request one
  kill -WINCH "$pid"
  release_request one
  is "$(answer_of one)" 200
  wait_until 10 gone "$pid"
}

@test "no process, shared memory or semaphore is left after the end" {
  local shm sem
  shm=$(ipcs -m | wc -l); sem=$(ipcs -s | wc -l)
  start_httpd 'VhostLimit On'
  get a /
  graceful_httpd
  local pids
  pids=$(httpd_pid; httpd_children)
  stop_httpd
  for pid in $pids; do gone "$pid" || fail "process $pid is left"; done
  is "$(ipcs -m | wc -l) $(ipcs -s | wc -l)" "$shm $sem" "System V objects"
  is "$(find "$HTTPD_ROOT/run" -type f)" '' "files in the run folder"
}

# Prints the address of the module in the parent.
address_of_module() { sed -n '/mod_vhostlimit/{s/-.*//p;q}' "/proc/$(httpd_pid)/maps"; }

@test "restarts that load the module at another address keep counts and groups" {
  requires cc cgroups
  local was
  start_preloaded new_address 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 2'
  hold_request one
  is "$(get b /)" 200
  was=$(address_of_module)
  graceful_httpd
  isnt "$(address_of_module)" "$was" "the address of the module"
  is "$(status_of a running) $(status_of b requests)" '1 1'
  release_request one
  is "$(answer_of one)" 200 "the request that ran through the restart"
  configure_httpd 'VhostLimit On' -o 'a c d'
  restart_httpd
  is "$(status_of a requests) $(get d /)" '1 200'
  wait_until 10 cgroup_gone "$(httpd_cgroup)/b.test"
}

# Replaces the module's file as a package does. The stamp in the file is changed, as by
# another layout of shared memory.
install_with_other_layout() { # <module>
  perl -pe 's/(mod_vhostlimit:)(\d)(\d*-\d+)/$1 . (9 - $2) . $3/e' "$1" >"$1.new"
  cmp -s "$1" "$1.new" && fail "no stamp in $1"
  mv "$1.new" "$1"
}

@test "a graceful restart with a module of another layout begins with new shared memory" {
  VL_MODULE=$BATS_FILE_TMPDIR/mod_vhostlimit.so
  cp "${VL_BUILD_DIR:-$TOP}/mod_vhostlimit/.libs/mod_vhostlimit.so" "$VL_MODULE"
  chmod 755 "$VL_MODULE"
  export VL_MODULE
  start_httpd 'VhostLimit On' 'VhostLimitQueue 1000 60s' -v 'a VhostLimitConcurrency 1'
  hold_request one
  begin_request waits a /page.html
  settles a waiting 1
  graceful_httpd
  is "$(status_of a requests)" 1 "the same module keeps its memory"
  install_with_other_layout "$VL_MODULE"
  graceful_httpd
  # The queued request may have been served already, as the first one of the new memory.
  settles a running 0     # the new memory has no count of the held request
  is "$(get a /page.html) $(get b /page.html)" '200 200'
  like "$(ctl top 2>&1)" 'a\.test'
  release_request one
  is "$(answer_of one)" 200 "the request that ran through the restart"
  is "$(answer_of waits)" 200 "the queued request"
  graceful_httpd
  is "$(status_of a requests)" 2
}
