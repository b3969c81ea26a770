# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The PHP-FPM of each site in the unit that "vhostlimitctl unit --install" writes.  Needs
# systemd as the first process: "v2.sh -n" has it.

unit_need() {
  [[ -d /run/systemd/system ]] || cannot "systemd does not run here; try: tools/v2.sh -n -s 3600 tools/bench.sh ${test[name]}"
}

unit_name()  { printf 'vhostlimit-fpm@%s.test.service\n' "$1"; }        # <site>
unit_pool()  { printf '/etc/php/vhosts/%s.test.conf\n' "$1"; }          # <site>
unit_names() { printf 'vhostlimit-fpm@%s.test.service\n' "${bed_sites[@]}"; }

unit_ctl() { (server_exec "$bed_dir/vhostlimitctl" -s "$(fleet_folder httpd)/vhostlimit.sock" "$@"); }        # <word>...

# The unit as it is, on the server's CPUs, with as many PHP processes as the bed's own pools.
# The files of the unit are moved, so that none is left when the machine is started again.
unit_start() { # <site>
  local name file
  name=$(unit_name "$1")
  unit_ctl unit "$1.test" --install >"$bed_dir/unit.out" 2>&1 || die "vhostlimitctl made no unit: $(tail -n 1 "$bed_dir/unit.out")"
  for file in "$name" "${name/fpm@/enter@}"; do
    [[ ! -e /etc/systemd/system/$file ]] || mv "/etc/systemd/system/$file" /run/systemd/system/
  done
  mkdir -p "/run/systemd/system/$name.d"
  printf '[Service]\nCPUAffinity=%s\n' "$(cpu_server)" >"/run/systemd/system/$name.d/bed.conf"
  sed -i -e 's/^pm = .*/pm = static/' -e "s/^pm.max_children = .*/pm.max_children = ${bed[children]}\nlisten.backlog = 4096/" "$(unit_pool "$1")"
  systemctl daemon-reload
  timeout 60 systemctl start "$name" >"$bed_dir/unit.out" 2>&1 ||
    die "the unit of $1 did not start: $(systemctl status "$name" 2>&1 | tail -n 3)"
  ln -sfn "/run/vhostlimit-fpm/$1.test/fpm.sock" "$bed_dir/fpm-$1.sock"
}

unit_stop() { # all that the bed has started
  local name names=()
  for name in $(unit_names); do
    [[ ! -e /run/systemd/system/$name ]] || names+=("$name")
  done
  ((${#names[@]})) || return 0
  timeout 60 systemctl stop "${names[@]}" || true
  for name in "${names[@]}"; do
    rm -rf "/run/systemd/system/$name"{,.d} "/run/systemd/system/${name/fpm@/enter@}"
  done
  for name in "${bed_sites[@]}"; do rm -f "$(unit_pool "$name")" "$bed_dir/fpm-$name.sock"; done
  systemctl daemon-reload || true
}

unit_pids() { # masters and workers
  local name pid
  for name in $(unit_names); do
    pid=$(systemctl show -P MainPID "$name") || continue
    [[ $pid == [1-9]* ]] || continue
    printf '%s\n' "$pid"
    tr -s ' ' '\n' <"/proc/$pid/task/$pid/children"
  done
}

# The sandbox of the units, and what the applications need besides their sites.
unit_lines() {
  echo 'VhostLimitSandbox Full'
  [[ -z ${bed[apps]} ]] || echo "VhostLimitSandboxPath rw \"${bed[apps]}\""
  [[ ! -e $bed_dir/mariadb ]] || echo "VhostLimitSandboxPath ro \"$bed_dir/mariadb\""
}
