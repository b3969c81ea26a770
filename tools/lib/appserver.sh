# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# What serves pages of site 1 besides the bed's PHP-FPM.  Part of bed.sh.
#
#   wsgi       /app in mod_wsgi's daemons, 4 processes with 5 threads
#   fcgid      its PHP pages in mod_fcgid, 4 processes of php-cgi
#   gunicorn   /app in gunicorn, 4 processes, through mod_proxy_http
#   uwsgi      /app in uWSGI, 4 processes, through mod_proxy_uwsgi
#   passenger  /app in Passenger, 4 processes
#   mariadb, postgresql  the database of all sites' page sql.php, beside their PHP-FPM
#   wordpress  the same with MariaDB, and a WordPress at /wordpress/
#   container  its PHP pages in a PHP-FPM in the network namespace of client 3, as in a container of the server
#   idle       WebSockets at /socket, server-sent events at /events, see idle.pl
#   throttled  /throttled, 1 MB at 10 KB/s by mod_ratelimit

appserver_port=9000             # of idle.pl, and of the PHP-FPM of container
appserver_container=198.18.0.13

appserver_packages() { # <kind>: roles in packages.sh
  case $1 in
    mariadb) printf '%s\n' mariadb phpmysql ;;
    wordpress) printf '%s\n' mariadb phpmysql wordpress ;;
    postgresql) printf '%s\n' postgresql phppgsql ;;
    wsgi) echo mod_wsgi ;;
    fcgid) printf '%s\n' mod_fcgid phpcgi ;;
    gunicorn | uwsgi | passenger) echo "$1" ;;
  esac
}

appserver_modules() {
  case ${bed[appserver]} in
    wsgi | fcgid | passenger) echo "${bed[appserver]}" ;;
    gunicorn) echo proxy_http ;;
    uwsgi) echo proxy_uwsgi ;;
    idle) printf '%s\n' proxy_http proxy_wstunnel ;;
    throttled) printf '%s\n' env ratelimit ;;
  esac
}

appserver_lines() { # for Apache, outside of the sites
  case ${bed[appserver]} in
    wsgi) echo "WSGISocketPrefix \"$bed_dir/app/wsgi\"" ;;
    fcgid) printf '%s\n' "FcgidIPCDir \"$bed_dir/app\"" "FcgidProcessTableFile \"$bed_dir/app/table\"" ;;
    passenger)
      printf '%s\n' "PassengerRoot \"$(passenger-config --root)\"" "PassengerInstanceRegistryDir \"$bed_dir/app\"" \
        'PassengerDisableSecurityUpdateCheck On' 'PassengerMaxPoolSize 4' 'PassengerMaxRequestQueueSize 0'
      ;;
  esac
}

appserver_vhost() { # <site>
  [[ $1 == site1 && ${bed[appserver]} != none ]] || return 0
  case ${bed[appserver]} in
    wsgi)
      printf '%s\n' 'WSGIDaemonProcess site1 processes=4 threads=5 display-name=%{GROUP}' \
        "WSGIScriptAlias /app \"$bed_dir/app/burn.py\" process-group=site1 application-group=%{GLOBAL}"
      ;;
    fcgid)
      printf '%s\n' "FcgidWrapper \"$(command -v php-cgi)\" .php" 'FcgidMaxProcessesPerClass 4' \
        'FcgidInitialEnv PHP_FCGI_MAX_REQUESTS 0' '<FilesMatch "\.php$">' '    SetHandler fcgid-script' '</FilesMatch>'
      ;;
    gunicorn) echo "ProxyPass /app \"unix:$bed_dir/app/socket|http://localhost/app\"" ;;
    uwsgi) echo "ProxyPass /app \"unix:$bed_dir/app/socket|uwsgi://localhost/app\"" ;;
    passenger)
      printf '%s\n' "Alias /app \"$bed_dir/app/public\"" '<Location "/app">' '    PassengerBaseURI /app' \
        "    PassengerAppRoot \"$bed_dir/app\"" '    PassengerMinInstances 4' '</Location>'
      ;;
    container) printf '%s\n' '<FilesMatch "\.php$">' "    SetHandler \"proxy:fcgi://$appserver_container:$appserver_port/\"" '</FilesMatch>' ;;
    idle) printf 'ProxyPass /%s:%s/\n' "socket ws://127.0.0.1" "$appserver_port" "events http://127.0.0.1" "$appserver_port" ;;
    wordpress) echo 'DirectoryIndex index.html index.php' ;;
    throttled)
      printf '%s\n' "Alias /throttled \"$bed_dir/www/$1/large.bin\"" '<Location "/throttled">' \
        '    SetOutputFilter RATE_LIMIT' '    SetEnv rate-limit 10' '</Location>'
      ;;
  esac
  printf '%s\n' "<Directory \"$bed_dir/app\">" "$(bed_allowed apache)" '</Directory>' '<Proxy "*">' "$(bed_allowed apache)" '</Proxy>'
}

# Runs before Apache, which starts the processes of its modules itself.
appserver_start() {
  local user
  [[ ${bed[appserver]} != none ]] || return 0
  user=$(httpd_user)
  install -d -o "$user" "$bed_dir"/app{,/public}
  install -m 644 "$(in_tree conf/testbed/burn.py)" "$bed_dir/app"
  [[ ${bed[appserver]} != @(mariadb|wordpress|postgresql) ]] || { appserver_database "$user"; return; }
  cp "$bed_dir/app/burn.py" "$bed_dir/app/passenger_wsgi.py"
  case ${bed[appserver]} in
    gunicorn) appserver_run "$user" gunicorn --workers 4 --bind "unix:$bed_dir/app/socket" --chdir "$bed_dir/app" burn ;;
    uwsgi)
      appserver_run "$user" uwsgi --plugin python3 --master --die-on-term --processes 4 --socket "$bed_dir/app/socket" \
        --wsgi-file "$bed_dir/app/burn.py"
      ;;
    idle) appserver_run "$user" perl "$(in_tree tools/lib/idle.pl)" "$appserver_port" "$bed_dir" ;;
    container) appserver_run_container "$user" ;;
  esac
}

appserver_database() { # <user>
  local site kind=mariadb host=@localhost limit='' port='' at=$bed_dir/app/socket data=$bed_dir/app/data create=()
  appserver_as() { setpriv --reuid "$1" --regid "$(id -g "$1")" --clear-groups "${@:2}" >"$bed_dir/app.out" 2>&1 || die "$2: $(tail -n 3 "$bed_dir/app.out")"; }
  case ${bed[appserver]} in
    mariadb | wordpress)
      appserver_as "$1" mariadb-install-db --no-defaults --datadir="$data" --skip-test-db
      appserver_run "$1" "$(command -v mariadbd)" --no-defaults --datadir="$data" --socket="$bed_dir/app/socket" \
        --pid-file="$data/pid" --skip-networking --max-connections=1000 --max-user-connections="${bed[connections]}"
      ;;
    postgresql)
      kind=postgresql host='' limit=" CONNECTION LIMIT $((bed[connections] ? bed[connections] : -1))" port=5432 at=$bed_dir/app
      appserver_as "$1" "$(appserver_postgresql initdb)" -D "$data" -A trust -U root -N
      appserver_run "$1" "$(appserver_postgresql postgres)" -D "$data" -c listen_addresses= -c max_connections=1000 \
        -c "unix_socket_directories=$bed_dir/app"
      ;;
  esac
  for site in "${bed_sites[@]}"; do
    create+=("CREATE USER $site$host$limit;")
    printf '%s\n' "kind = $kind" "at = $at" "port = $port" "user = $site" >"$bed_dir/www/$site/sql.ini"
  done
  if [[ $kind == mariadb ]]; then
    poll_until 30 mariadb --no-defaults -u root -S "$bed_dir/app/socket" -e "${create[*]}"
  else
    poll_until 30 psql -q -h "$bed_dir/app" -U root postgres -c "${create[*]}"
  fi
  [[ ${bed[appserver]} != wordpress ]] || appserver_wordpress "$1"
}

appserver_wordpress() { # <user>
  local folder=$bed_dir/www/site1/wordpress
  rm -rf "$folder"
  cp -rL /usr/share/wordpress "$folder"
  cp -rL /var/lib/wordpress/wp-content "$folder"
  sed "s,@DATABASE@,wordpress,; s,@SOCKET@,$bed_dir/app/socket,; s,http://site1.test,$(bed_url site1)," "$(in_tree conf/testbed/apps/wp-config.php.in)" >"$folder/wp-config.php"
  mariadb --no-defaults -u root -S "$bed_dir/app/socket" -e "CREATE DATABASE wordpress; GRANT ALL ON *.* TO bed@localhost IDENTIFIED BY 'bed'"
  install -m 644 "$(in_tree conf/testbed/apps/wp-install.php)" "$bed_dir/app"
  appserver_as "$1" php -d error_reporting=0 "$bed_dir/app/wp-install.php" "$folder"
}

appserver_postgresql() { compgen -G "/usr/lib/postgresql/*/bin/$1" || command -v "$1"; }  # <program>

appserver_run() { # <user> <command>...: the bed's folder is among its words
  (server_exec setpriv --reuid "$1" --regid "$(id -g "$1")" --clear-groups "${@:2}") </dev/null >"$bed_dir/app.out" 2>&1 &
  printf '%s\n' "$!" >"$bed_dir/app.pid"
  poll_until 30 appserver_listens || die "$2 did not start: $(tail -n 3 "$bed_dir/app.out")"
}

appserver_listens() {
  if [[ ${bed[appserver]} == idle ]]; then
    [[ -n $(netns_listener "$(bed_server_net)" "$appserver_port") ]]
  else
    compgen -G "$bed_dir/app/*socket" >/dev/null || [[ -S $bed_dir/app/.s.PGSQL.5432 ]]
  fi
}

appserver_run_container() { # <user>
  local binary pools
  binary=$(fpm_binary) || cannot "php-fpm is not installed"
  pools=$(bed_fpm_pool "$bed_name-app" "$appserver_container:$appserver_port" "$1")
  template_render "$(in_tree conf/testbed/fpm.conf.in)" "$bed_dir/app.conf" DIR="$bed_dir" NAME=app POOLS="$pools"
  fpm_check "$binary" "$bed_dir/app.conf"
  (bed_exec ip netns exec vl-client3 taskset -c "$(cpu_server)" "$binary" -y "$bed_dir/app.conf") </dev/null >"$bed_dir/app.out" 2>&1 ||
    die "the PHP-FPM of container did not start: $(tail -n 3 "$bed_dir/app.out")"
}

# A load would count the errors of an application that does not run.
appserver_check() {
  local path
  case ${bed[appserver]} in
    mariadb | postgresql) path='/sql.php?ms=1' ;;
    wordpress) path=/wordpress/ ;;
    wsgi | gunicorn | uwsgi | passenger) path='/app?ms=1' ;;
    fcgid | container) path='/burn.php?ms=1' ;;
    *) return 0 ;;
  esac
  poll_until 30 appserver_answers "$path" || die "${bed[appserver]} does not answer: $(tail -n 1 "$bed_dir/httpd.log")"
}

appserver_answers() { # <path>
  [[ $( (bed_curl 1 -m 10 "$(bed_url site1)$1") 2>/dev/null) == @(burned 1 ms|asked|*'>Post 10<'*) ]]
}

appserver_stop() {
  local pid
  ! pid=$(process_ours "$bed_dir/app.pid" "$bed_dir") || process_stop "$pid"
  rm -rf "$bed_dir"/app{,.pid,.conf}
}

# Apache waits for a back end that sends nothing, although the client has gone.
appserver_let_go() { [[ ${bed[appserver]} != idle ]] || appserver_stop; }

# The processes that run the pages, if they use the server's CPU.
appserver_pids() {
  local from pid
  [[ ${bed[appserver]} != @(none|idle|throttled) ]] || return 0
  [[ ${bed[appserver]} != passenger ]] || { appserver_pids_passenger; return; }
  from=$(process_ours "$bed_dir/app.pid" "$bed_dir" || process_ours "$bed_dir/httpd.pid" "$bed_dir/httpd.conf") || return 0
  for pid in $(process_descendants "$from"); do
    case ${bed[appserver]} in
      wsgi) process_has_word "$pid" '(wsgi:site1)' || continue ;;
      fcgid) [[ $(process_program "$pid") == *php-cgi* ]] || continue ;;
    esac
    printf '%s\n' "$pid"
  done
}

# Passenger's processes are not Apache's child processes.
appserver_pids_passenger() {
  local pid
  for pid in $(netns_pids_of "$(bed_server_net)"); do
    [[ ! /proc/$pid/cwd -ef $bed_dir/app || $(process_program "$pid") != *python* ]] || printf '%s\n' "$pid"
  done
}
