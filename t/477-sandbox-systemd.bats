#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The unit of "vhostlimitctl unit" under systemd, in namespaces of this machine (tools/v2.sh -n).
#
# needs: util phpcli phpmysql

load lib/live
load lib/control
load lib/services

HTTPD_ROOT=/srv/vl-wordpress    # not below /tmp, where the pool has its own

need_systemd()   { [[ -x /lib/systemd/systemd ]] || { echo "no systemd"; return 1; }; }
need_wordpress() { [[ -e /usr/share/wordpress/wp-load.php ]] || { echo "no WordPress"; return 1; }; }

# Runs tests of a file, all of which must pass, under systemd.  The bats is that on PATH, not the
# part of bats that runs this test.
under_systemd() { # <filter> <file>
  try native bats --tap -f "$1" "$2"
  [[ $status != 77 ]] || skip "${lines[-1]}"
  is "$status" 0
  at_least "$(grep -c '^ok ' <<<"$output")" 1 "passed"
  is "$(grep -cE '^not ok|# skip' <<<"$output")" 0 "failed or skipped"
}

native() { PATH=${PATH//"$BATS_LIBEXEC":/} "$TOP/tools/v2.sh" -n -s 300 "$@"; }       # <command>...

setup() { requires root systemd; }

teardown() { [[ -z ${pool-} ]] || all_of end_pool end_service end_server; }
end_pool() { timeout 60 systemctl stop "$pool"; }

@test "the pool runs in its site's group, alone with its site's files" {
  requires php_fpm mod_proxy_fcgi ctl
  under_systemd 'a unit of vhostlimitctl' "$TOP/t/460-cgroup-systemd.bats"
}

@test "a WordPress in its unit serves pages, runs WP-Cron and sends mail" {
  requires php_fpm mod_proxy_fcgi ctl mariadb msmtp wordpress
  if [[ -z ${VL_GUEST-} ]]; then
    under_systemd "$BATS_TEST_DESCRIPTION" "$BATS_TEST_FILENAME"
    return
  fi
  local port database mail
  start_mariadb
  database=$service
  serve_wordpress
  start_pool
  like "$(get a /wordpress/) $(answer_body)" '^200 .*Post 10'
  port=$(free_port smtp)
  mail_to_port "$port"
  receive_mail "$port" >"$BATS_TEST_TMPDIR/mail" 3>&- &
  mail=$!
  # The page schedules the job, unless it is scheduled.  A later one lets WP-Cron run it, in a request
  # to the site itself, when WordPress' own jobs have ended.  These may overwrite the list of jobs.
  wait_until 60 visited_till_gone "$mail"
  like "$(<"$BATS_TEST_TMPDIR/mail")" $'Subject: from the cron.*\n.*hello of daemon without other sites'
  service=$database
}

visited_till_gone() { [[ $(get a '/wordpress/?schedule') == 200 ]] && gone "$1"; }       # <pid>

# An Apache whose site a has a WordPress, all of it owned by the user of its pool.
serve_wordpress() {
  local folder=$HTTPD_ROOT/htdocs/a/wordpress plugins=$HTTPD_ROOT/htdocs/a/wordpress/wp-content/mu-plugins
  start_httpd 'VhostLimit On' -l proxy -l proxy_fcgi -l dir -v 'a VhostLimitSandbox Full' -v 'a DirectoryIndex index.php' \
    -v $'a <FilesMatch "\\.php$">\nSetHandler "proxy:unix:/run/vhostlimit-fpm/a.test/fpm.sock|fcgi://a.test/"\n</FilesMatch>'
  mkdir -p "$folder"
  cp -rL /usr/share/wordpress/. "$folder"
  cp -rL /var/lib/wordpress/wp-content "$folder"
  sed -e "s,@DATABASE@,wordpress,; s,@SOCKET@,/run/mysqld/mysqld.sock,; s,http://site1.test,$(url a),; /DISABLE_WP_CRON/d; /WP_HTTP_BLOCK_EXTERNAL/d" \
    "$TOP/conf/testbed/apps/wp-config.php.in" | sed "s,^.table_prefix,define('WP_CRON_LOCK_TIMEOUT'\, 1);\n&," >"$folder/wp-config.php"
  mariadb --no-defaults -u root -S /run/mysqld/mysqld.sock -e "CREATE DATABASE wordpress; GRANT ALL ON *.* TO 'bed'@'localhost' IDENTIFIED BY 'bed'"
  mkdir "$plugins"
  cat >"$plugins/job.php" <<'END'
<?php
add_action('job', function () {
    wp_mail('visitor@b.test', 'from the cron', 'hello of ' . posix_getpwuid(posix_geteuid())['name']
            . (file_exists(dirname($_SERVER['DOCUMENT_ROOT']) . '/b') ? ' with' : ' without') . ' other sites');
});
if (isset($_GET['schedule'])) add_action('init', fn() => wp_schedule_single_event(time() - 1, 'job'));
END
  chown -R daemon "$HTTPD_ROOT/htdocs/a"
  echo '127.0.0.1 a.test' >>/etc/hosts
  # The user of the pool may be unable to read the checkout.
  install -m 644 "$TOP/conf/testbed/apps/wp-install.php" "$HTTPD_ROOT/wp-install.php"
  timeout 60 setpriv --reuid daemon --clear-groups php -d error_reporting=0 "$HTTPD_ROOT/wp-install.php" "$folder" </dev/null ||
    fail "WordPress could not be set up"
}

start_pool() {
  pool=vhostlimit-fpm@a.test
  ctl unit a.test --install >/dev/null
  mv /etc/systemd/system/vhostlimit-*@a.test.service /run/systemd/system/     # the folder that this systemd reads
  systemctl daemon-reload
  timeout 90 systemctl start "$pool" || { systemctl status "$pool"; return 1; }
}
