#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A quota of CPU time for the whole server, as a container or CPUQuota= of systemd sets it.
# shellcheck disable=SC2016  # of the shell in the group

load lib/live

teardown() { all_of end_programs end_server end_group; }

programs=()
end_programs() { ((${#programs[@]} == 0)) || kill "${programs[@]}"; }
end_group()    { wait_until 20 cgroup_remove "$(group)"; }

group() { printf '/vl-test-quota-%s%s\n' "${VL_TEST_ID:+$VL_TEST_ID-}" "$$"; }

# ---- a machine with idle processors --------------------------------------------

# Writes the times of the first processor that this program may use, in the form of
# /proc/stat. The numbers have a fixed width, so a reader never sees a part of them.
write_times() { # <busy> <idle>
  printf 'cpu%-4d %012d 0 0 %012d 0 0 0 0 0 0\n' "$(first_cpu)" "$1" "$2" 1<>"$BATS_TEST_TMPDIR/stat"
}

first_cpu() { taskset -pc $$ | grep -oE '[0-9]+' | sed -n 2p; }

# From now on the processor is idle for half of the time.
be_idle() {
  local cpu ticks=1000
  cpu=$(first_cpu)
  (
    while sleep 0.05; do
      ticks=$((ticks + 5))
      printf 'cpu%-4d %012d 0 0 %012d 0 0 0 0 0 0\n' "$cpu" "$ticks" "$ticks" 1<>"$BATS_TEST_TMPDIR/stat"
    done
  ) 3>&- 4>&- &
  programs+=($!)
}

# ---- the group and its quota ----------------------------------------------------

make_group() {
  local root
  root=$(cgroup_cpu_root)
  mkdir "$root$(group)"
}

# 1 ms in 20 ms, which a busy program uses up on a loaded machine too.
limit_group() {
  local dir
  dir=$(cgroup_cpu_root)$(group)
  if [[ -e $dir/cpu.max ]]; then
    echo '1000 20000' >"$dir/cpu.max"
  else
    echo 20000 >"$dir/cpu.cfs_period_us"
    echo 1000 >"$dir/cpu.cfs_quota_us"
  fi
  (in_cgroup "$(group)" sh -c 'while :; do :; done') 3>&- 4>&- &
  programs+=($!)
}

unlimit_group() {
  local dir
  dir=$(cgroup_cpu_root)$(group)
  if [[ -e $dir/cpu.max ]]; then echo max >"$dir/cpu.max"; else echo -1 >"$dir/cpu.cfs_quota_us"; fi
}

stops()           { cgroup_value "$(group)" cpu.stat | awk '$1 == "nr_throttled" { print $2 }'; }
stopped_so_often() { (($(stops) >= $1)); }      # <number>

start_in_group() { # <as configure_httpd>...
  rm -rf "$HTTPD_ROOT"
  mkdir -p "$HTTPD_ROOT"
  configure_httpd "$@"
  write_times 1000 1000
  (cgroup_enter "$(group)" && detached unshare --mount sh -c \
    'mount --bind "$1" /proc/stat && exec taskset -c "$2" "$3" -f "$4" -k start' - \
    "$BATS_TEST_TMPDIR/stat" "$(first_cpu)" "$(httpd_program)" "$HTTPD_ROOT/httpd.conf")
  wait_until 10 httpd_ready
}

slots()           { status_json | jq .slots; }
slots_are_above() { (($(slots) > $1)); }        # <number>

need_util() { need_program taskset; }

@test "VhostLimitSlots auto adds no slots while a quota stops the server on an idle machine" {
  requires cgroups cpu util
  local n
  make_group
  start_in_group 'VhostLimit On' 'VhostLimitCgroup off' 'VhostLimitQueue 100 600s'
  for n in {1..6}; do hold_request "a$n"; done
  hold_request b b
  begin_request waits b /page.html
  settles b waiting 1
  is "$(slots)" 8 "slots for one processor"
  limit_group
  wait_until 30 stopped_so_often 10
  be_idle
  wait_until 60 stopped_so_often $(($(stops) + 150))    # in three seconds, or 15 steps
  is "$(slots)" 8 "slots while the quota stops the server"
  unlimit_group
  wait_until 30 slots_are_above 8
  release_all
}
