#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# vhostlimitctl doctor: each finding, on a server or machine that has it.

load lib/live
load lib/control

setup() { requires root ctl; }

doctor() { ctl --json doctor >"$BATS_TEST_TMPDIR/doctor" || :; }
# Print the level and the text of the last findings of a check.
level_of() { jq -r --arg c "$1" '[.findings[] | select(.check == $c) | .level] | join(" ")' "$BATS_TEST_TMPDIR/doctor"; }
words_of() { jq -r --arg c "$1" '.findings[] | select(.check == $c) | .finding + " / " + .todo' "$BATS_TEST_TMPDIR/doctor"; }

@test "a good server has no problem and no note" {
  start_httpd 'VhostLimit On' -l reqtimeout
  doctor
  is "$(jq -r '[.findings[] | select(.check | IN("server", "mpm", "workers", "vhosts", "descriptors", "modules", "order")) | .level] | unique | join(" ")' \
    "$BATS_TEST_TMPDIR/doctor")" good
  is "$(level_of dryrun)$(level_of limited)$(level_of overridden)$(level_of mod_cgid)$(level_of mod_reqtimeout)" ''
  is "$(jq '[.findings[] | select(.level != "good" and .todo == "")] | length' "$BATS_TEST_TMPDIR/doctor")" 0 "without a remedy"
}

@test "no site takes part: a problem" {
  start_httpd 'VhostLimit Off'
  doctor
  is "$(level_of vhosts)" problem
  try ctl doctor
  is "$status" 1
}

@test "DryRun, limited and changed sites: notes" {
  start_httpd 'VhostLimit On' 'VhostLimitQueue 0' -v 'a VhostLimitConcurrency 1' -v 'b VhostLimit DryRun'
  ctl set c.test weight=7 >/dev/null
  hold_request one a
  is "$(get a /)" 503
  wait_until 10 limited_now
  is "$(level_of dryrun) $(level_of limited) $(level_of overridden)" 'note note note'
  like "$(words_of dryrun)" '^1 site with VhostLimit DryRun.*vhostlimitctl report'
}
limited_now() { doctor; [[ -n $(level_of limited) ]]; }

@test "too few workers for the slots: a note" {
  start_httpd 'VhostLimit On' 'VhostLimitSlots 30'
  doctor
  is "$(level_of workers)" note
  like "$(words_of workers)" '^(32|40) workers for 30 slots.*MaxRequestWorkers 60'
}

names_the_site() { # <mpm> <message>
  start_httpd -m "$1" 'VhostLimit DryRun' -t 'StartServers 1' "${@:3}" -t 'MaxRequestWorkers 4'
  hold_request one a; hold_request two a; hold_request three b
  mkfifo -m 666 "$HTTPD_ROOT/hold/four.fifo"
  begin_request four a '/cgi/hold.sh?four'  # it may wait for the last worker
  wait_until 20 error_log_has "VL0081: at $2 site a\\.test had [123] of [1234] running requests"
  doctor
  like "$(words_of 'no worker')" "^Apache had no free worker \\($2\\) at .*, when a\\.test had [123] of [1234] .*vhostlimitctl explain a\\.test"
  like "$(ctl explain a.test)" "Apache had no free worker \\($2\\)"
  is "$(ctl explain b.test | grep -c 'no free worker')" 0
  release_all
  graceful_httpd                        # Apache does not log the message again
  like "$(ctl explain a.test)" "Apache had no free worker \\($2\\)"
}

@test "event: when Apache logs AH00484, the log, doctor and explain name the site with most running requests" {
  names_the_site event AH00484 -t 'ServerLimit 1' -t 'ThreadLimit 4' -t 'ThreadsPerChild 4' -t 'MinSpareThreads 1'
}

@test "event: while Apache logs each second that the scoreboard is full, VL0081 is logged once" {
  start_httpd -m event 'VhostLimit DryRun' -t 'StartServers 2' -t 'ServerLimit 2' -t 'ThreadLimit 3' -t 'ThreadsPerChild 3' -t 'MinSpareThreads 1' -t 'MaxRequestWorkers 6'
  hold_request one a; hold_request two a; hold_request three b
  (detached "$(httpd_program)" -f "$HTTPD_ROOT/httpd.conf" -k graceful)
  wait_until 20 logged_often
  is "$(error_log | grep -c 'VL0081: at AH03490 site a\.test')" 1
}
logged_often() { (($(error_log | grep -c ' AH03490: ') >= 4)); }

@test "explain: a queued request lacks a thread, of which one site gets four fifths" {
  local i
  start_httpd 'VhostLimit On' 'VhostLimitSlots 30' -t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadLimit 6' -t 'ThreadsPerChild 6' \
    -t 'MaxRequestWorkers 6' -t 'MinSpareThreads 1'
  for i in 1 2 3 4; do hold_request "h$i" a; done
  begin_request five a /
  settles a waiting 1
  is "$(ctl explain --json a.test | jq -c .causes)" '["threads"]'
  like "$(ctl explain a.test)" 'a child process has a free thread for the site\. One site gets four fifths'
}

@test "prefork: the same for AH00161" {
  requires prefork
  names_the_site prefork AH00161 -t 'ServerLimit 4' -t 'MinSpareServers 1'
}

@test "prefork: requests that wait with their process are a note, with an acceptor they are none" {
  requires prefork
  start_httpd -m prefork 'VhostLimit On'
  doctor
  is "$(level_of mpm)" good
  end_server
  start_httpd -m prefork 'VhostLimit On' -t 'MaxRequestWorkers 1' -t 'ServerLimit 1'
  doctor
  is "$(level_of mpm)" note
  like "$(words_of mpm)" 'VL0079'
  like "$(error_log)" 'VL0079: .* one process only\. Raise MaxRequestWorkers'
}

@test "too few file descriptors: a problem" {
  (ulimit -n 400 && start_httpd 'VhostLimit On')
  doctor
  is "$(level_of descriptors)" problem
  like "$(words_of descriptors)" '^400 open files are allowed, [0-9]+ are needed .* LimitNOFILE='
}

@test "the file descriptors of log files count" {
  local needed line lines=()
  needs() { doctor; words_of descriptors | sed -E 's/.* are allowed, ([0-9]+) are needed.*/\1/'; }
  start_httpd 'VhostLimit On'
  needed=$(needs)
  for line in {1..40}; do lines+=("CustomLog $HTTPD_ROOT/logs/of-$line %h"); done
  configure_httpd 'VhostLimit On' "${lines[@]}"
  graceful_httpd
  at_least "$(needs)" $((needed + 40)) "descriptors that are needed"
}

@test "VhostLimitCgroup off: a note" {
  start_httpd 'VhostLimit On' 'VhostLimitCgroup off'
  doctor
  is "$(level_of cgroup)" note
  like "$(words_of cgroup)" 'VhostLimitCgroup is off: .* / VhostLimitCgroup auto'
}

sampler_is() { [[ $(status_json | jq -r .sampler.state) == "$1" ]]; }   # <state>

@test "a sampler that makes no progress: a problem" {
  start_httpd 'VhostLimit On'
  wait_until 10 sampler_is runs
  doctor
  is "$(level_of sampler)" good
  kill -STOP "$(pgrep -P "$(httpd_pid)" -x vl-sampler)"
  get a /page.html >/dev/null           # it wakes a sampler that sleeps
  wait_until 15 sampler_is none
  doctor
  is "$(level_of sampler)" problem
  like "$(words_of sampler)" '^no sampler works: .* / look for VL0076'
  kill -CONT "$(pgrep -P "$(httpd_pid)" -x vl-sampler)"
  wait_until 10 sampler_is runs
}

@test "a sampler without CAP_SYS_PTRACE is blind: a problem, and requests are served" {
  requires setpriv
  local wrapper=$BATS_TEST_TMPDIR/httpd
  printf '#!/bin/sh\nexec setpriv --bounding-set=-sys_ptrace %s "$@"\n' "$(httpd_program)" >"$wrapper"
  chmod 755 "$wrapper"
  # shellcheck disable=SC2317  # start_httpd calls it
  httpd_program() { echo "$wrapper"; }
  start_httpd 'VhostLimit On'
  hold_request one a
  wait_until 10 sampler_is blind
  doctor
  is "$(level_of sampler)" problem
  like "$(words_of sampler)" 'the sampler is blind: .*CAP_SYS_PTRACE.* / start Apache as root'
  is "$(get b /)" 200
}
need_setpriv() { need_program setpriv; }

@test "modules that limit or slow down, mod_cgid, and missing modules: notes" {
  local bystander=()
  requires mod_ratelimit mod_cgid
  [[ $(need_module mod_qos) ]] || bystander=(-x "$(load_qos)")
  start_httpd 'VhostLimit On' -l ratelimit -l cgid "${bystander[@]}"
  doctor
  is "$(level_of mod_reqtimeout)" note
  if need_cgroups >/dev/null; then is "$(level_of mod_cgid)" problem; fi
  like "$(words_of modules)" 'mod_ratelimit: a response that it slows down holds its thread'
  if ((${#bystander[@]})); then like "$(words_of modules)" '^mod_qos: '; fi
}

# Debian 12's mod_qos needs libpcre3 and is not linked with it.
load_qos() {
  ! grep -q 'libpcre\.so\.3 ' <<<"$(ldconfig -p)" || echo 'LoadFile libpcre.so.3'
  printf 'LoadModule qos_module "%s/mod_qos.so"\n' "$(httpd_module_dir)"
}

@test "modules with hooks between a request and its admission: a problem" {
  # shellcheck disable=SC2046  # flags they are
  cc -shared -fPIC -o "$BATS_TEST_TMPDIR/late.so" "$TOP/t/lib/late.c" -I"$(apxs_query INCLUDEDIR)" $(apxs_query CFLAGS) $(pkg-config --cflags apr-1 apr-util-1)
  start_httpd 'VhostLimit On' -x "LoadModule late_module $BATS_TEST_TMPDIR/late.so"
  doctor
  is "$(level_of order)" 'problem note note'
  is "$(words_of order | grep -c '^late\.c ')" 3
}

@test "PHP-FPM outside of all groups: a note, and in its vhost's group: none" {
  requires cgroups php_fpm
  start_httpd 'VhostLimit On'
  run_pool "$(httpd_cgroup)/.server" vl-outside
  run_pool "$(httpd_cgroup)/a.test" vl-inside
  doctor
  is "$(level_of php-fpm)" note
  like "$(words_of php-fpm)" "vl-outside in "
  [[ $(words_of php-fpm) != *vl-inside* ]] || fail "the pool that is where it should be is named"
  end_pool vl-outside; end_pool vl-inside
}

run_pool() { # <group> <name>
  local root=$BATS_TEST_TMPDIR/$2 user
  user=$(httpd_user)
  mkdir -p "$root"
  printf '%s\n' '[global]' "pid = $root/pid" "error_log = $root/log" "[$2]" "user = $user" "group = $(id -gn "$user")" \
    "listen = $root/socket" 'pm = static' 'pm.max_children = 1' >"$root/conf"
  (in_cgroup "$1" "$(php_fpm_program | sed -n 1p)" -n -y "$root/conf") 3>&- 4>&- </dev/null >"$root/out" 2>&1
  wait_until 10 test -S "$root/socket"
}

end_pool() { # <name>
  local pid
  pid=$(<"$BATS_TEST_TMPDIR/$1/pid")
  kill "$pid"
  wait_until 10 gone "$pid"
}

@test "the status page: good, taken by another directive, not there, and shown to visitors of a proxy: notes" {
  local shut="-z req('X-Forwarded-For') && -z req('X-Real-IP') && -z req('Forwarded') && -z req('Via')" page PATH=$TOP/conf:$PATH
  start_httpd 'VhostLimit On' -x '<Location "/shown">' -x 'SetHandler vhostlimit-status' -x 'Require all granted' -x '</Location>' \
    -x '<Location "/shut">' -x 'SetHandler vhostlimit-status' -x "Require expr \"$shut\"" -x '</Location>' -x 'Redirect 301 /taken http://a.test/'
  page=http://127.0.0.1:$(httpd_port)
  try ctl --json doctor "$page/shut"
  echo "$output" >"$BATS_TEST_TMPDIR/doctor"
  is "$(level_of 'status page')" good
  for page in "$page/shown=visitors of a proxy on this machine can read it; use the Require lines" "$page/taken=status 301: another directive .* a virtual host of its own" \
    "$page/none=status 404: another directive" "http://127.0.0.1:1/=curl: "; do
    try ctl --json doctor "${page%%=*}"
    echo "$output" >"$BATS_TEST_TMPDIR/doctor"
    is "$(level_of 'status page')" note
    like "$(words_of 'status page')" "^${page%%=*}.*${page#*=}.* / see The status page in docs/guides/monitoring.md"
  done
}

@test "a server with mpm_itk does not start unless VhostLimit is Off" {
  requires prefork mpm_itk
  try start_httpd -m prefork 'VhostLimit On' -x "LoadModule mpm_itk_module $(httpd_module_dir)/mpm_itk.so"
  isnt "$status" 0
  export LOG_MAY_SAY=VL0032
  like "$(<"$HTTPD_ROOT/start.out")" 'VL0032: VhostLimit does not work beside mpm_itk'
  start_httpd -m prefork 'VhostLimit Off' -x "LoadModule mpm_itk_module $(httpd_module_dir)/mpm_itk.so"
  is "$(get a /)" 200
}
need_mpm_itk() { [[ -e $(httpd_module_dir)/mpm_itk.so ]] || { echo "no mpm_itk"; return 1; }; }
