# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# vhostlimitctl doctor: looks at the machine and at the server's processes, and
# says of each thing how it is and what to do.

doctor_findings=()        # level, check, what is so, what to do; set apart by \x1f

finding() { # <good|note|problem> <check> <what is so> [what to do]
  local cells
  cells=$(printf '%s\x1f' "$1" "$2" "$3")
  doctor_findings+=("$cells${4-}")
}

server_fact() { answer_jq -r "$1"; }  # <jq filter>

doctor_kernel() {
  local release major minor
  release=$(uname -r)
  IFS=.- read -r major minor _ <<<"$release"
  if ((major * 1000 + ${minor%%[!0-9]*} >= 4005)); then
    finding good kernel "Linux $release"
  else
    finding problem kernel "Linux $release lacks EPOLLEXCLUSIVE (4.5)" "use a kernel from 2016 or later"
  fi
}

doctor_mpm() {
  local mpm workers slots
  mpm=$(server_fact .mpm) workers=$(server_fact .workers) slots=$(server_fact .slots)
  case $mpm in
    event | worker) finding good mpm "$mpm: connections wait without a thread" ;;
    *) finding note mpm "$mpm: whoever waits holds a process" "a2dismod mpm_$mpm, a2enmod mpm_event, where mod_php is not needed" ;;
  esac
  if ((workers >= 2 * slots)); then
    finding good workers "$workers workers for $slots slots"
  else
    finding note workers "$workers workers for $slots slots: few are left for answers that are being sent" \
      "MaxRequestWorkers $((2 * slots)) or more (vhostlimitctl size)"
  fi
}

doctor_vhosts() {
  local all dry limited changed
  read -r all dry limited changed < <(server_fact '"\(.vhosts | length) \([.vhosts[] | select(.mode == "dryrun")] | length)
    \([.vhosts[] | select(.limited_s > 0)] | length) \([.vhosts[] | select(.overridden != {})] | length)" | gsub("\\s+"; " ")')
  if ((all)); then
    finding good vhosts "$all take part"
  else
    finding problem vhosts "none takes part" "VhostLimit On, at server level or in the vhosts"
  fi
  ((!dry)) || finding note dryrun "$dry of them only count what would be" "vhostlimitctl report, then VhostLimit On"
  ((!limited)) || finding note limited "$limited are limited now" "vhostlimitctl list, vhostlimitctl explain VHOST"
  ((!changed)) || finding note overridden "the limits of $changed are not as configured" \
    "write them into the configuration, or vhostlimitctl reset VHOST"
}

doctor_cgroup() {
  local backend path reason
  backend=$(server_fact .cgroup.backend) path=$(server_fact .cgroup.path) reason=$(server_fact .cgroup.reason)
  if [[ $backend == off ]]; then
    finding problem cgroup "no tree: ${reason:-VhostLimitCgroup off}" \
      "start Apache as root where its group is delegated to it (Delegate=yes in its systemd unit), docs/production.md"
  elif [[ -n $reason ]]; then
    finding problem cgroup "$backend at $path: $reason" "docs/production.md"
  else
    finding good cgroup "$backend at $path"
  fi
}

doctor_delegation() {
  local unit delegate
  [[ -d /run/systemd/system ]] && command -v systemctl >/dev/null || return 0
  unit=$(sed -n 's,.*/\([^/]*\.service\)\(/.*\)\?$,\1,p' "/proc/$(answer_server)/cgroup" 2>/dev/null | head -n 1)
  [[ -n $unit ]] || return 0
  delegate=$(systemctl show -p Delegate --value "$unit" 2>/dev/null) || return 0
  if [[ $delegate == yes ]]; then
    finding good delegation "systemd leaves the groups of $unit alone"
  else
    finding problem delegation "systemd may change the groups of $unit" \
      "a drop-in with [Service] Delegate=yes, systemctl daemon-reload, restart"
  fi
}

doctor_controllers() {
  local controller have missing=()
  have=" $(cat /sys/fs/cgroup/cgroup.controllers 2>/dev/null || :) $(awk '$3 == "cgroup" { gsub(",", " ", $4); print $4 }' /proc/mounts | xargs) "
  for controller in cpu memory pids io; do
    [[ $have == *" $controller "* || ($controller == io && $have == *" blkio "*) ]] || missing+=("$controller")
  done
  if ((${#missing[@]} == 0)); then
    finding good controllers "cpu, memory, pids and io are there"
  else
    finding note controllers "not there: ${missing[*]}" \
      "mount them or have them delegated, if VhostLimitCPU, Memory, Processes or IO is to work"
  fi
}

# Three for each vhost's groups are a quarter, and the longest queue waits too.
doctor_descriptors() {
  local limit want
  limit=$(awk '/^Max open files/ { print $4 }' "/proc/$(answer_server)/limits" 2>/dev/null) || return 0
  want=$(server_fact '(.vhosts | length) * 12 + ([.vhosts[].queue] | max // 0) * 2 + .workers / ([.children, 1] | max) * 5 + 200 | ceil')
  if [[ $limit == unlimited ]] || ((limit >= want)); then
    finding good descriptors "$limit open files, $want wanted"
  else
    finding problem descriptors "$limit open files, $want wanted for the vhosts' groups and the longest queue" \
      "LimitNOFILE=$want in Apache's systemd unit, or ulimit -n"
  fi
}

# Known to limit or to move requests by themselves.
doctor_conflicts='mod_qos mod_vhost_limit mod_hostinglimits mod_limitipconn mod_bw mod_cband mod_evasive mod_ruid2 mpm_itk'

doctor_modules() {
  local loaded name found=()
  loaded=$(grep -oE '/(mod|mpm|libmod)_[a-z0-9_]+\.so' "/proc/$(answer_server)/maps" 2>/dev/null | sort -u | tr -d / | xargs) || return 0
  for name in $doctor_conflicts; do
    [[ " $loaded " != *" $name.so "* && " $loaded " != *" mod_$name.so "* ]] || found+=("$name")
  done
  if ((${#found[@]})); then
    finding problem modules "also loaded: ${found[*]}; two that limit the same count it twice" "use one of them"
  else
    finding good modules "none that limits the same is loaded"
  fi
  [[ " $loaded " != *' mod_cgid.so '* ]] || finding problem mod_cgid \
    "its daemon forks CGI programs outside their vhost's group" "a2dismod cgid, a2enmod cgi (works with event and worker)"
  [[ " $loaded " == *' mod_reqtimeout.so '* ]] || finding note mod_reqtimeout \
    "not loaded: slow senders may hold threads for long" "a2enmod reqtimeout"
}

doctor_pools() {
  local tree pid name group outside=() inside=0
  tree=$(server_fact .cgroup.path)
  [[ -n $tree ]] || return 0
  while read -r pid name; do
    group=$(doctor_cpu_group "$pid") || continue
    if [[ $group == "$tree"/* && $group != "$tree/.server"* ]]; then
      inside=$((inside + 1))
    else
      outside+=("$name in $group")
    fi
  done < <(doctor_pool_processes)
  if ((${#outside[@]})); then
    finding problem php-fpm "$(printf '%s\n' "${outside[@]}" | sort -u | head -n 5 | paste -sd';' -): in no vhost's group" \
      "give each customer's pool a master in the group of its vhost, docs/production.md"
  elif ((inside)); then
    finding good php-fpm "$inside processes of pools are in their vhosts' groups"
  fi
}

doctor_pool_processes() { # pid and pool of each process of PHP-FPM
  local file words
  for file in /proc/[0-9]*/cmdline; do
    words=$(tr '\0' ' ' 2>/dev/null <"$file") || continue
    [[ $words == 'php-fpm: pool '* ]] || continue
    words=${words#php-fpm: pool }
    file=${file#/proc/}
    printf '%s %s\n' "${file%/cmdline}" "${words%% *}"
  done
}

doctor_cpu_group() { # <pid>: its group where CPU time is shared, v1 or v2
  awk -F: '$2 ~ /(^|,)cpu(,|$)/ { v1 = $3 } $2 == "" { v2 = $3 } END { print v1 ? v1 : v2 }' "/proc/$1/cgroup" 2>/dev/null
}

doctor_print() {
  local all
  all=$(printf '%s\n' "${doctor_findings[@]}" | jq -Rn '{ findings: [inputs | split("\u001f")
    | { level: .[0], check: .[1], finding: .[2], todo: .[3] }] }')
  if want_json; then
    printf '%s\n' "$all"
  else
    text_jq 'include "ctl"; .findings[] | "\({ good: "ok      ", note: "note    ", problem: "PROBLEM " }[.level])\(.check): \(.finding | plain)"
      + if .todo == "" then "" else "\n        to do: \(.todo | plain)" end' <<<"$all"
  fi
  jq -e '[.findings[] | select(.level == "problem")] == []' <<<"$all" >/dev/null
}

ctl_doctor() {
  ask status
  finding good server "$(server_fact .module) in process $(answer_server)"
  doctor_kernel
  doctor_mpm
  doctor_vhosts
  doctor_cgroup
  doctor_delegation
  doctor_controllers
  doctor_descriptors
  doctor_modules
  doctor_pools
  doctor_print
}
