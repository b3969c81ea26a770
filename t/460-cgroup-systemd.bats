#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Apache as a service of systemd, with the drop-ins and units of conf/systemd, on pure v2.
# The tests write units of the machine, so they run in the machine of tools/v2.sh -i only.

load lib/live
load lib/control

UNITS=/run/systemd/system

need_guest() { [[ ${VL_GUEST:-} == @(systemd|native) ]] || { echo "not in the machine of tools/v2.sh -i"; return 1; }; }

# Debian's unit with the test's configuration.
write_service() {
  cat >"$UNITS/apache2.service" <<END
[Service]
Type=forking
ExecStart=$(httpd_program) -f $HTTPD_ROOT/httpd.conf -k start
ExecStop=$(httpd_program) -f $HTTPD_ROOT/httpd.conf -k graceful-stop
ExecReload=$(httpd_program) -f $HTTPD_ROOT/httpd.conf -k graceful
KillMode=mixed
Restart=on-abort
OOMPolicy=continue
END
}

drop_in() { install -D -m 644 -t "$UNITS/apache2.service.d" "$TOP/conf/systemd/$1"; }  # <file>

start_service() { # <as configure_httpd>...
  mkdir -p "$HTTPD_ROOT"
  configure_httpd 'VhostLimit On' 'VhostLimitCgroup auto' "$@"
  write_service
  systemctl daemon-reload
  timeout 60 systemctl start apache2 || { systemctl status apache2; show_log; return 1; }
  wait_until 30 httpd_ready
}

setup() { requires guest; }

teardown() { all_of look_for_leftovers end_services; }
end_services() {
  timeout 60 systemctl stop 'vhostlimit-fpm@*' apache2 || :
  rm -rf "$UNITS"/apache2.service* "$UNITS"/vhostlimit-{fpm,enter}* "$UNITS"/{multi-user.target.wants,web.slice} "$HTTPD_ROOT" /etc/php/vhosts/a.test.conf /run/vl-look
}

property() { systemctl show -P "$2" "$1"; }  # <unit> <property>

# Weight and quota of a, for back ends and for Apache's threads.
a_has() { # <tree> <weight> <quota>
  local group
  for group in "$1/a.test" "$1/.server/a.test"; do
    is "$(cgroup_value "$group" cpu.weight) $(cgroup_value "$group" cpu.max)" "$2 $3" "$group"
  done
}

@test "delegate: the tree belongs to the service, systemd leaves it alone, and it is removed at the end" {
  local tree=/system.slice/apache2.service/vhostlimit pid
  drop_in apache2-delegate.conf
  start_service -v 'a VhostLimitWeight 300' -v 'a VhostLimitCPU 50%' -v 'a VhostLimitMemory 256M'
  is "$(property apache2 Delegate) $(status_json | jq -r '.cgroup | "\(.backend) \(.path)\(.reason)"')" "yes v2 $tree"
  a_has "$tree" 300 '50000 100000'
  is "$(cgroup_value "$tree/a.test" memory.max)" 268435456
  is "$(property apache2 MainPID)" "$(httpd_pid)"
  like "$(<"/proc/$(httpd_pid)/cgroup")" ":$tree/\.server\$"
  is "$(get a /cgi/where.sh) $(answer_body)" "200 0::$tree/a.test"
  pid=$(httpd_pid)
  systemctl daemon-reload
  timeout 60 systemctl set-property --runtime apache2 CPUWeight=150
  timeout 60 systemctl reload apache2
  wait_until 30 restarted_since 1
  a_has "$tree" 300 '50000 100000'
  is "$(property apache2 ActiveState) $(httpd_pid) $(get a /cgi/where.sh)" "active $pid 200"
  timeout 60 systemctl stop apache2
  wait_until 30 gone "$pid"
  is "$(property apache2 ActiveState) $(property apache2 Result)" 'inactive success'
  wait_until 10 cgroup_gone /system.slice/apache2.service
}

@test "without Delegate the module enables no controller, and systemctl reload works" {
  local group=/system.slice/apache2.service
  start_service -v 'a VhostLimitWeight 300'
  is "$(status_json | jq -r .cgroup.reason)" "no CPU shares: systemd has not delegated $group to Apache"
  is "$(cat "/sys/fs/cgroup$group/cgroup.subtree_control")" ''
  timeout 60 systemctl reload apache2
  wait_until 30 restarted_since 1
  is "$(get a /cgi/where.sh) $(answer_body)" "200 0::$group/vhostlimit/a.test"
}

@test "slice: all sites together have one share, and the tree is below it" {
  local tree=/web.slice/apache2.service/vhostlimit
  drop_in apache2-delegate.conf
  drop_in apache2-slice.conf
  cp "$TOP/conf/systemd/web.slice" "$UNITS/"
  start_service -v 'a VhostLimitWeight 200'
  is "$(status_json | jq -r .cgroup.path) $(cgroup_value /web.slice cpu.weight)" "$tree 200"
  a_has "$tree" 200 'max 100000'
  like "$(get a /cgi/where.sh) $(answer_body)" "^200 0::$tree/a\.test$"
}

@test "a pool of vhostlimit-fpm@ is in its vhost's group, also after a reload, and ends with Apache" {
  requires php_fpm mod_proxy_fcgi
  local name pool group user
  name=a.test user=$(httpd_user)
  pool=vhostlimit-fpm@$name group=/system.slice/apache2.service/vhostlimit/$name
  drop_in apache2-delegate.conf
  start_service -l proxy -l proxy_fcgi \
    -v $'a <FilesMatch "\\.php$">\nSetHandler "proxy:unix:/run/php/a.sock|fcgi://a/"\n</FilesMatch>'
  echo '<?php readfile("/proc/self/cgroup");' >"$HTTPD_ROOT/htdocs/a/group.php"
  printf '%s\n' '[global]' 'error_log = /run/php/log' '[www]' "user = $user" "group = $(id -gn "$user")" \
    'listen = /run/php/a.sock' "listen.owner = $user" 'pm = static' 'pm.max_children = 1' >"$HTTPD_ROOT/pool.conf"
  sed "s,/usr/local/sbin/in-vhost,/usr/bin/env APACHE_PID_FILE=$HTTPD_ROOT/run/httpd.pid $TOP/conf/systemd/in-vhost,
    s,/usr/sbin/php-fpm8.2,$(php_fpm_program | sed -n 1p) -n,; s,/etc/php/vhosts/%i.conf,$HTTPD_ROOT/pool.conf," \
    "$TOP/conf/systemd/vhostlimit-fpm@.service" >"$UNITS/vhostlimit-fpm@.service"
  systemctl daemon-reload
  timeout 90 systemctl start "$pool" || { systemctl status "$pool"; cat /run/php/log; return 1; }
  is "$(get a /group.php) $(answer_body)" "200 0::$group"
  timeout 60 systemctl reload apache2
  wait_until 30 restarted_since 1
  is "$(get a /group.php) $(answer_body)" "200 0::$group" "after a reload"
  timeout 90 systemctl stop apache2
  wait_until 30 cgroup_gone /system.slice/apache2.service
  is "$(property "$pool" ActiveState)" inactive "the pool"
}

# What a script of the pool finds, one line each.
look_around() {
  cat <<'END'
<?php
$lines = array_filter(file("/proc/self/status"), fn($line) => preg_match("/^(Uid|CapBnd|NoNewPrivs|Seccomp):/", $line));
foreach ($lines as $line) echo preg_replace("/\s+/", " ", $line), "\n";
echo implode(preg_grep("/^0:/", file("/proc/self/cgroup")));
echo implode(" ", array_diff(scandir(dirname(__DIR__)), [".", ".."])), "\n";
echo file_exists("/run/vl-look") ? "sees /run" : "sees no /run", "\n";
file_put_contents("/tmp/of-the-pool", "1");
echo implode(" ", array_diff(scandir("/tmp"), [".", ".."])), "\n";
echo @file_put_contents("/etc/new", "1") === false ? "/etc is read-only" : "/etc is writable", "\n";
echo @file_put_contents(__DIR__ . "/new", "1") === false ? "documents are read-only" : "documents are writable", "\n";
echo preg_match("/cannot|denied|failed/i", (string)shell_exec("unshare --user true 2>&1")) ? "no namespaces" : "namespaces", "\n";
echo count(preg_grep("/^[0-9]+$/", scandir("/proc"))) < 6 ? "sees its processes" : "sees all processes", "\n";
END
}

@test "a unit of vhostlimitctl starts the pool in its site's group, alone with its site's files, and again with Apache" {
  requires php_fpm mod_proxy_fcgi ctl
  local pool=vhostlimit-fpm@a.test group=/system.slice/apache2.service/vhostlimit/a.test uid master
  HTTPD_ROOT=/srv/vl-unit                       # not below /tmp, where the pool has its own
  drop_in apache2-delegate.conf
  start_service -l proxy -l proxy_fcgi -v 'a VhostLimitSandbox Full' \
    -v $'a <FilesMatch "\\.php$">\nSetHandler "proxy:unix:/run/vhostlimit-fpm/a.test/fpm.sock|fcgi://a.test/"\n</FilesMatch>'
  look_around >"$HTTPD_ROOT/htdocs/a/look.php"
  chown daemon "$HTTPD_ROOT/htdocs/a"
  touch /run/vl-look
  ctl unit a.test --install >/dev/null
  mv /etc/systemd/system/vhostlimit-{fpm,enter}@a.test.service "$UNITS/"      # the folder that this systemd reads
  # The pool is killed below while this unit has moved it and has not ended.
  install -D /dev/stdin "$UNITS/vhostlimit-enter@a.test.service.d/slow.conf" <<<$'[Service]\nExecStartPost=/bin/sleep 60'
  systemctl daemon-reload
  systemctl enable --runtime --quiet "$pool"
  timeout 90 systemctl start "$pool" || { systemctl status "$pool"; return 1; }
  master=$(property "$pool" MainPID)
  wait_until 30 is_in "$master" "$group"
  uid=$(id -u daemon)
  get a /look.php >/dev/null
  is "$(answer_body)" "Uid: $uid $uid $uid $uid "$'\n'"CapBnd: 0000000000000000 "$'\n''NoNewPrivs: 1 '$'\n'"Seccomp: 2 "$'\n'"0::$group
a
sees no /run
of-the-pool
/etc is read-only
documents are writable
no namespaces
sees its processes"
  [[ ! -e /tmp/of-the-pool ]]
  timeout 60 systemctl reload "$pool"
  wait_until 30 look_again "$group"
  is "$(property "$pool" MainPID) $(property "$pool" ActiveState)" "$master active"
  kill -KILL "$master"
  wait_until 60 started_again "$pool" "$master"
  wait_until 30 is_in "$(property "$pool" MainPID)" "$group"
  timeout 90 systemctl stop apache2
  wait_until 30 cgroup_gone /system.slice/apache2.service
  is "$(property "$pool" ActiveState) $(property "$pool" Result)" 'inactive success' "the pool"
  [[ ! -e /run/vhostlimit-fpm/a.test ]]
  timeout 90 systemctl start apache2
  wait_until 60 started_again "$pool" "$master"
  wait_until 30 is_in "$(property "$pool" MainPID)" "$group"
  timeout 90 systemctl stop apache2
}
is_in() { [[ $(<"/proc/$1/cgroup") == *":$2" ]]; }     # <pid> <group>
started_again() { # <unit> <old pid>; systemd says 0 when it knows of the death and not yet of a new process
  local pid
  pid=$(property "$1" MainPID)
  [[ $pid != 0 && $pid != "$2" && $(property "$1" ActiveState) == active ]]
}
look_again() { [[ $(get a /look.php) == 200 && $(answer_body) == *"0::$1"* ]]; }  # <group>
