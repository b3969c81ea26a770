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

# What the server says of itself, by name.
declare -A doctor_fact=()
doctor_ask() {
  local name value
  ask modules
  mv "$(kept answer)" "$(kept modules)"
  ask status
  while IFS=$'\t' read -r name value; do
    doctor_fact[$name]=$value
  done < <(answer_jq -r 'include "ctl-doctor"; facts' && text_jq 'include "ctl-doctor"; order' "$(kept modules)")
}

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
  local mpm=${doctor_fact[mpm]} workers=${doctor_fact[workers]} slots=${doctor_fact[slots]}
  if ((doctor_fact[threads])); then
    finding note mpm "$mpm: connections wait with their threads or processes" \
      "take out ListenCoresBucketsRatio, listeners of other protocols than http and https, and MaxRequestWorkers 1 of prefork"
  elif [[ $mpm == prefork ]]; then
    finding good mpm "prefork: connections wait in one of the processes, which does nothing else"
  else
    finding good mpm "$mpm: connections wait without a thread"
  fi
  if ((workers >= 2 * slots)); then
    finding good workers "$workers workers for $slots slots"
  else
    finding note workers "$workers workers for $slots slots: few are left for answers that are being sent" \
      "MaxRequestWorkers $((2 * slots)) or more (vhostlimitctl size)"
  fi
}

doctor_vhosts() {
  local all=${doctor_fact[vhosts]} dry=${doctor_fact[dry]} limited=${doctor_fact[limited]} changed=${doctor_fact[changed]}
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
  local backend=${doctor_fact[backend]} path=${doctor_fact[path]} reason=${doctor_fact[reason]}
  if [[ $reason == 'VhostLimitCgroup off' ]]; then
    finding note cgroup "none, as VhostLimitCgroup off says: what back ends cost is estimated, and no limit of CPU, memory, processes or IO binds them" \
      "VhostLimitCgroup auto"
  elif [[ $backend == off ]]; then
    finding problem cgroup "no tree: $reason" \
      "start Apache as root where its group is delegated to it (Delegate=yes in its systemd unit), docs/production.md"
  elif [[ -n $reason ]]; then
    finding problem cgroup "$backend at $path: $reason" "docs/production.md"
  else
    finding good cgroup "$backend at $path"
  fi
}

doctor_unit() { # the server's unit of systemd, where there is one
  [[ -d /run/systemd/system ]] || return 0
  sed -n 's,.*/\([^/]*\.service\)\(/.*\)\?$,\1,p' "/proc/$(answer_server)/cgroup" 2>/dev/null | sed -n 1p
}

doctor_delegation() {
  local unit delegate
  unit=$(doctor_unit)
  [[ -n $unit ]] || return 0
  delegate=$(systemctl show -p Delegate --value "$unit" 2>/dev/null) || return 0
  if [[ $delegate == yes ]]; then
    finding good delegation "systemd leaves the groups of $unit alone"
  else
    finding problem delegation "systemd may change the groups of $unit" \
      "a drop-in with [Service] Delegate=yes, systemctl daemon-reload, restart"
  fi
}

# v1's are mounted; v2's are those that the tree has been given.
doctor_has_controllers() {
  local v2
  awk '$3 == "cgroup" { gsub(",", " ", $4); print $4 }' /proc/self/mounts
  v2=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
  cat "$v2${doctor_fact[path]}/cgroup.controllers" 2>/dev/null || cat "$v2/cgroup.controllers" 2>/dev/null || :
}

doctor_controllers() {
  local controller have missing=()
  have=" $(doctor_has_controllers | xargs) "
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
  want=${doctor_fact[descriptors]}
  if [[ $limit == unlimited ]] || ((limit >= want)); then
    finding good descriptors "$limit open files, $want wanted"
  else
    finding problem descriptors "$limit open files, $want wanted for the vhosts' groups and the longest queue" \
      "LimitNOFILE=$want in Apache's systemd unit, or ulimit -n"
  fi
}

# What they do to a request comes after its turn.
doctor_later='mod_qos mod_evasive20 mod_limitipconn mod_vhost_limit mod_hostinglimits'
# They let the thread sleep in the midst of an answer.
doctor_slow='mod_ratelimit mod_bw'

doctor_loaded() { # <module>...: those that are
  local name found=()
  for name; do
    [[ " ${doctor_fact[modules]} " != *" $name.c "* ]] || found+=("$name")
  done
  printf '%s\n' "${found[*]}"
}

doctor_modules() {
  local later slow
  # shellcheck disable=SC2086  # words they are
  later=$(doctor_loaded $doctor_later) slow=$(doctor_loaded $doctor_slow)
  if [[ -z $later$slow ]]; then
    finding good modules "none that limits the same is loaded"
  fi
  [[ -z $later ]] || finding note modules "$later: requests come there after their turn, so who waits is not counted, and what is refused has waited for it" \
    "leave limits of vhosts, requests and connections to one module (docs/guides/migrating.md)"
  [[ -z $slow ]] || finding note modules "$slow: an answer that is slowed down there holds its slot to its end" \
    "VhostLimitExempt for such answers, if slots are short"
  case ${doctor_fact[outside]} in
    mod_cgid) finding problem mod_cgid "its daemon forks CGI programs outside their vhost's group" "a2dismod cgid, a2enmod cgi (works with event and worker)" ;;
    mod_fcgid) finding note mod_fcgid "its programs run in no vhost's group" "PHP-FPM with a pool for each vhost, docs/guides/shared-hosting.md" ;;
  esac
  [[ -n $(doctor_loaded mod_reqtimeout) ]] || finding note mod_reqtimeout \
    "not loaded: slow senders may hold threads for long" "a2enmod reqtimeout"
}

# Where the order matters; that of LoadModule lines does only if two modules ask
# for the same place.
doctor_order() {
  local before=${doctor_fact[before]} behind=${doctor_fact[behind]} logs=${doctor_fact[logs]}
  if [[ -z $before$behind$logs ]]; then
    finding good order "no module comes between a request and its turn"
  fi
  [[ -z $before ]] || finding problem order "$before may answer requests that are to be refused (quick_handler)" \
    "load mod_vhostlimit before it, or do without it"
  [[ -z $behind ]] || finding note order "$behind looks at requests that have had their turn already (post_read_request): what it refuses has cost one, and VhostLimitExempt does not see what it changes" \
    "load it before mod_vhostlimit"
  [[ -z $logs ]] || finding note order "$logs logs before VHOSTLIMIT_* are set (log_transaction)" "load mod_vhostlimit before it"
}

doctor_pools() {
  local tree pid name group outside=() inside=0
  tree=${doctor_fact[path]}
  [[ -n $tree ]] || return 0
  while read -r pid name; do
    group=$(doctor_cpu_group "$pid") || continue
    [[ $group != /../* ]] || continue       # of another container
    if [[ $group == "$tree"/* && $group != "$tree/.server"* ]]; then
      inside=$((inside + 1))
    else
      outside+=("$name in $group")
    fi
  done < <(doctor_pool_processes)
  if ((${#outside[@]})); then
    finding problem php-fpm "$(printf '%s\n' "${outside[@]}" | sort -u | sed -n 1,5p | paste -sd';' -): in no vhost's group" \
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
  doctor_ask
  finding good server "${doctor_fact[module]} in process $(answer_server)"
  doctor_kernel
  doctor_mpm
  doctor_vhosts
  doctor_cgroup
  doctor_delegation
  doctor_controllers
  doctor_descriptors
  doctor_modules
  doctor_order
  doctor_pools
  doctor_print
}
