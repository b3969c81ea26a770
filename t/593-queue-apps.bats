#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The CPU time that is charged to two sites beside what the kernel counted for all processes but
# Apache's own, for each kind of back end. Site a's pages compute for 20 ms, site b's sleep for
# 50 ms. Each test prints a row. VL_APPS_SECONDS: length of each run.

load lib/live
load lib/apps

setup() { requires root cgroups cpu ab mod_proxy_http; }

make_apps() {
  local name app=$HTTPD_ROOT/app
  mkdir -p "$app"/{a,b,run}/public
  chmod 777 "$app/run"
  for name in a b; do
    cp "$TOP/conf/testbed/burn.py" "$app/$name/burn.py"
    cp "$TOP/conf/testbed/burn.py" "$app/$name/passenger_wsgi.py"
    cp "$TOP"/conf/testbed/pages/{burn,sleep}.php "$HTTPD_ROOT/htdocs/$name"
    cat >"$HTTPD_ROOT/htdocs/$name/app.pl" <<'END'
#!/usr/bin/perl
my ($burn, $sleep) = $ENV{QUERY_STRING} =~ /ms=(\d+)(?:&sleep=(\d+))?/;
sub used { open my $file, '<', '/proc/self/schedstat'; (split ' ', <$file>)[0] / 1e6 }
1 while used() < $burn;
select undef, undef, undef, $sleep / 1000 if $sleep;
print "Content-Type: text/plain\r\n\r\nburned\n";
END
    chmod 755 "$HTTPD_ROOT/htdocs/$name/app.pl"
  done
}

# The share of what the kernel counted that is charged to site a is nearly all, and to site b nearly none.
# With `own`, what the processes of site b have used themselves (VL_SITE=b in their environment) is no fault.
compare() { # <title> <path of a> <path of b> [<users of a> [<users of b>]]
  local before kernel a b used_b=0
  is "$(get a "$2") $(get b "$3")" '200 200'
  [[ ${VL_APPS_SECONDS-} == "" ]] || time_passes 2000
  before=$(kernel_us)
  a=$(status_of a backend_us)
  b=$(status_of b backend_us)
  [[ ! ${own-} ]] || used_b=$(own_us b)
  load_both "$2" "$3" "${@:4}"
  time_passes 2500
  kernel=$(($(kernel_us) - before))
  a=$((($(status_of a backend_us) - a) * 1000 / kernel))
  b=$((($(status_of b backend_us) - b) * 1000 / kernel))
  [[ ! ${own-} ]] || used_b=$((($(own_us b) - used_b) * 1000 / kernel))
  printf '# %-34s kernel %6d ms, charged to a %d.%03d, to b %d.%03d; pages %s\n' "$1" $((kernel / 1000)) \
    $((a / 1000)) $((a % 1000)) $((b / 1000)) $((b % 1000)) "$(pages_of a) $(pages_of b)" >&3
  at_least "$kernel" 200000 "us of CPU time used" &&
    at_least $((a + b)) "${least:-600}" "charged, permille of what the kernel counted" &&
    at_most $((a + b)) "${most:-1500}" "charged, permille of what the kernel counted" &&
    at_most $((b - used_b)) "${most_b:-400}" "of these to the site that sleeps"
}

# Microseconds that living processes with VL_SITE=<vhost> in their environment have used.
own_us() { # <vhost>
  local file pids=()
  while read -r file; do pids+=("${file//[^0-9]/}"); done < <(grep -lzsx "VL_SITE=$1" /proc/[0-9]*/environ)
  if ((${#pids[@]})); then cpu_of "${pids[@]}"; else echo 0; fi
}

@test "PHP-FPM: one master with a pool for each site" {
  requires php_fpm mod_proxy_fcgi
  two_pools
  compare 'PHP-FPM, two pools' '/burn.php?ms=20' '/sleep.php?ms=50'
}

@test "PHP-FPM: workers of two pools under one master that end often" {
  requires php_fpm mod_proxy_fcgi
  # shellcheck disable=SC2030,SC2034  # of apps.bash
  POOL_LINES=('pm.max_requests = 5')
  two_pools
  most=1250 compare 'PHP-FPM, 5 requests of each worker' '/burn.php?ms=20' '/sleep.php?ms=50'
}

@test "PHP-FPM: a pool that two sites share, few compute and many sleep" {
  requires php_fpm mod_proxy_fcgi
  shared_pool
  compare 'PHP-FPM, shared pool, 2 of 12' '/burn.php?ms=20' '/sleep.php?ms=50' 2 10
  compare 'PHP-FPM, shared pool, 10 of 12' '/burn.php?ms=20' '/sleep.php?ms=50' 10 2
}

@test "PHP-FPM: a master for each site, over TCP, also at Apache's port of another address" {
  requires php_fpm mod_proxy_fcgi
  local one two
  one=127.0.0.3:$(httpd_port)
  two=127.0.0.1:$(free_port two)
  start_in_group -l proxy -l proxy_fcgi -v "$(php_at a "fcgi://$one/")" -v "$(php_at b "fcgi://$two/")"
  start_fpm one a="$one"
  start_fpm two b="$two"
  compare 'PHP-FPM, two masters, TCP' '/burn.php?ms=20' '/sleep.php?ms=50'
}

# nginx with a virtual host for each site.
run_nginx() { # <port> <vhost>=<address of its pool>...
  local run=$HTTPD_ROOT/app/run one
  {
    printf '%s\n' 'daemon off;' "pid $run/nginx.id;" 'error_log stderr;' 'events { }' 'http {' 'access_log off;'
    printf "%s_temp_path $run/%s;\n" client_body 1 proxy 2 fastcgi 3 uwsgi 4 scgi 5
    for one in "${@:2}"; do
      # shellcheck disable=SC2016  # nginx
      printf '%s\n' "server { listen 127.0.0.1:$1; server_name ${one%%=*}.test; location / { fastcgi_pass ${one#*=};" \
        "fastcgi_param SCRIPT_FILENAME $HTTPD_ROOT/htdocs/${one%%=*}\$fastcgi_script_name;" \
        'fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method; } }'
    done
    echo '}'
  } >"$run/nginx.conf"
  run_app nginx "$1" nginx -e stderr -c "$run/nginx.conf"
}

@test "PHP-FPM: nginx, and Varnish before nginx, between Apache and two pools" {
  requires php_fpm nginx mod_proxy_fcgi
  local run=$HTTPD_ROOT/app/run name nginx varnish lines=()
  nginx=$(free_port nginx)
  varnish=$(free_port varnish)
  for name in a b; do
    lines+=(-v "$name ProxyPreserveHost On" -v "$name ProxyPass /nginx/ http://127.0.0.1:$nginx/" -v "$name ProxyPass /varnish/ http://127.0.0.1:$varnish/")
  done
  start_in_group -l proxy -l proxy_http "${lines[@]}"
  start_fpm fpm a="$run/a" b="$run/b"
  run_nginx "$nginx" a="unix:$run/a" b="unix:$run/b"
  most_b=250 compare 'nginx, two pools' '/nginx/burn.php?ms=20' '/nginx/sleep.php?ms=50'
  is_long || return 0
  printf 'vcl 4.1;\nbackend nginx { .host = "127.0.0.1"; .port = "%s"; }\nsub vcl_recv { return (pass); }\n' "$nginx" >"$run/vcl"
  run_app varnish "$varnish" varnishd -F -j none -n "$run/varnish" -a "127.0.0.1:$varnish" -f "$run/vcl" -s malloc,16m
  most_b=250 compare 'Varnish, nginx, two pools' '/varnish/burn.php?ms=20' '/varnish/sleep.php?ms=50'
}

@test "PHP-FPM: in another network namespace, as in a container: one pool over TCP, Unix sockets, behind nginx" {
  requires php_fpm nginx mod_proxy_fcgi netns
  local run=$HTTPD_ROOT/app/run name nginx box=vl-apps lines=()
  nginx=$(free_port nginx)
  for name in a b; do
    lines+=(-v "$name <Location /unix/>"$'\n'"SetHandler \"proxy:unix:$run/$name|fcgi://$name/\""$'\n</Location>')
    lines+=(-v "$name ProxyPass /nginx/ http://127.0.0.1:$nginx/" -v "$name ProxyPreserveHost On" -v "$name Alias /unix/ $HTTPD_ROOT/htdocs/$name/")
  done
  start_in_group -l proxy -l proxy_fcgi -l proxy_http -v "$(php_at a fcgi://10.9.8.2:9000/)" -v "$(php_at b fcgi://10.9.8.2:9000/)" "${lines[@]}"
  ip netns add $box
  ip link add vl-apps type veth peer name eth0 netns $box
  ip address add 10.9.8.1/24 dev vl-apps
  ip link set vl-apps up
  ip -n $box address add 10.9.8.2/24 dev eth0
  ip -n $box link set eth0 up
  # shellcheck disable=SC2034  # of apps.bash
  IN_NET=(nsenter "--net=/run/netns/$box")
  start_fpm one p=10.9.8.2:9000
  start_fpm two q=10.9.8.2:9001 a="$run/a"
  start_fpm three r=10.9.8.2:9002 b="$run/b"
  # shellcheck disable=SC2034
  IN_NET=()
  run_nginx "$nginx" a=10.9.8.2:9001 b=10.9.8.2:9002
  compare 'one pool over TCP, in a namespace' '/burn.php?ms=20' '/sleep.php?ms=50' 2 10
  compare 'Unix sockets, in a namespace' '/unix/burn.php?ms=20' '/unix/sleep.php?ms=50'
  load_both '/nginx/burn.php?ms=20' '/nginx/sleep.php?ms=50'    # its processes are found
  compare 'nginx, pools in a namespace' '/nginx/burn.php?ms=20' '/nginx/sleep.php?ms=50'
  stop_apps
  ip netns del $box
}

@test "PHP-FPM: programs that pages start" {
  requires php_fpm mod_proxy_fcgi
  local run=$HTTPD_ROOT/app/run
  start_in_group -l proxy -l proxy_fcgi -v "$(php_at a "unix:$run/p|fcgi://p/")" -v "$(php_at b "unix:$run/p|fcgi://p/")"
  start_fpm fpm p="$run/p"
  # shellcheck disable=SC2016  # PHP
  echo '<?php echo shell_exec("QUERY_STRING=ms=" . (int)$_GET["ms"] . " ./app.pl");' >"$HTTPD_ROOT/htdocs/a/exec.php"
  compare 'programs of PHP pages' '/exec.php?ms=40' '/sleep.php?ms=50'
}

@test "PHP-FPM: a program that outlives its page" {
  requires php_fpm mod_proxy_fcgi
  local before a b
  two_pools
  echo '<?php exec("QUERY_STRING=ms=4000 ./app.pl >/dev/null 2>&1 &");' >"$HTTPD_ROOT/htdocs/a/left.php"
  VL_APPS_SECONDS=1 load_both /sleep.php?ms=50 /sleep.php?ms=50
  before=$(kernel_us) a=$(status_of a backend_us) b=$(status_of b backend_us)
  is "$(get a /left.php)" 200
  VL_APPS_SECONDS=3 begin_load b 4 '/sleep.php?ms=50'
  wait "$!"
  before=$(($(kernel_us) - before))
  a=$((($(status_of a backend_us) - a) * 1000 / before))
  b=$((($(status_of b backend_us) - b) * 1000 / before))
  printf '# %-34s kernel %6d ms, charged to a 0.%03d, to b 0.%03d\n' 'a program in the background' $((before / 1000)) "$a" "$b" >&3
  at_least "$a" 500 "charged to the site whose page has started it, permille"
  at_most "$b" 400 "charged to the other site, permille"
}

@test "PHP-FPM: what pages do after their response, in a pool that two sites share" {
  requires php_fpm mod_proxy_fcgi
  shared_pool
  { echo '<?php echo "done"; fastcgi_finish_request(); ?>'; cat "$TOP/conf/testbed/pages/burn.php"; } >"$HTTPD_ROOT/htdocs/a/after.php"
  compare 'PHP-FPM, after the response' '/after.php?ms=20' '/sleep.php?ms=50'
}

@test "programs that a thread of Apache starts and waits for" {
  requires mod_lua
  start_in_group -l lua -v "a LuaMapHandler /run $HTTPD_ROOT/app/a/run.lua" -v "b LuaMapHandler /run $HTTPD_ROOT/app/b/run.lua"
  start() { printf 'function handle(r)\n os.execute("%s >/dev/null")\n r:puts("done")\n return 0\nend\n' "$2" >"$HTTPD_ROOT/app/$1/run.lua"; }
  start a "QUERY_STRING=ms=20 $HTTPD_ROOT/htdocs/a/app.pl"
  start b 'sleep 0.05'
  compare 'programs of mod_lua' /run /run
}

@test "mod_fcgid, beside eight busy processes" {
  requires mod_fcgid phpcgi
  local pids
  lines() { printf '%s\n' "$1 <Location />" 'Options +ExecCGI' 'AddHandler fcgid-script .php' "FcgidWrapper $(command -v php-cgi) .php" '</Location>' \
    "FcgidInitialEnv VL_SITE $1"; }
  start_in_group -l fcgid "FcgidIPCDir $HTTPD_ROOT/app/run" "FcgidProcessTableFile $HTTPD_ROOT/app/run/table" \
    'FcgidMaxProcessesPerClass 4' -v "$(lines a)" -v "$(lines b)"
  be_busy
  # Each process of PHP needs 20 ms or more to start, which is much beside few pages.
  own=yes most_b=150 compare mod_fcgid '/burn.php?ms=20' '/sleep.php?ms=50'
  kill "${pids[@]}"
}

# Starts eight busy processes. Each has a session, or the kernel's autogroups give all of them the share of one.
be_busy() {
  pids=()
  for _ in {1..8}; do (detached setsid timeout 30 perl -e '1 while 1') & pids+=($!); done
}

cgi_lines() { printf '%s\n' "$1 <Location />" 'Options +ExecCGI' 'AddHandler cgi-script .pl' '</Location>'; }

@test "mod_cgi" {
  start_in_group -v "$(cgi_lines a)" -v "$(cgi_lines b)"
  # Each program of perl needs 3 ms to start, which is much beside few pages.
  most_b=550 compare mod_cgi '/app.pl?ms=20' '/app.pl?ms=0&sleep=50'
  at_least "$(status_of a duty_permille)" 600 "permille, duty of programs that compute"
}

@test "mod_cgid, and beside eight busy processes" {
  requires mod_cgid
  local pids
  BASE_MODULES=${BASE_MODULES/ cgi/ cgid} start_in_group -v "$(cgi_lines a)" -v "$(cgi_lines b)" "ScriptSock $HTTPD_ROOT/run/cgid"
  # Most of what its programs use is estimated: they are no children of the server that are waited for.
  least=300 most_b=600 compare mod_cgid '/app.pl?ms=20' '/app.pl?ms=0&sleep=50'
  be_busy
  # Few of its programs are seen beside so many others, so a run may be wrong.
  busy() { least=200 most=2000 most_b=900 compare 'mod_cgid, busy' '/app.pl?ms=20' '/app.pl?ms=0&sleep=50'; }
  busy || busy
  kill "${pids[@]}"
}

@test "mod_wsgi: daemons" {
  requires mod_wsgi
  local name
  lines() { printf '%s\n' "$1 WSGIDaemonProcess $1 processes=4 threads=5" \
    "WSGIScriptAlias /app $HTTPD_ROOT/app/$1/burn.py process-group=$1 application-group=%{GLOBAL}"; }
  start_in_group -l wsgi "WSGISocketPrefix $HTTPD_ROOT/app/run/wsgi" -v "$(lines a)" -v "$(lines b)"
  compare mod_wsgi '/app?ms=20' '/app?ms=0&sleep=50'
}

@test "Passenger" {
  requires mod_passenger
  lines() { printf '%s\n' "$1 Alias /app $HTTPD_ROOT/app/$1/public" '<Location /app>' 'PassengerBaseURI /app' \
    "PassengerAppRoot $HTTPD_ROOT/app/$1" 'PassengerMinInstances 4' '</Location>'; }
  start_in_group -l passenger "PassengerRoot $(passenger-config --root)" "PassengerInstanceRegistryDir $HTTPD_ROOT/app/run" \
    'PassengerDisableSecurityUpdateCheck On' 'PassengerMaxPoolSize 8' 'PassengerMaxRequestQueueSize 0' 'PassengerPython /usr/bin/python3' -v "$(lines a)" -v "$(lines b)"
  compare Passenger '/app?ms=20' '/app?ms=0&sleep=50'
}

to_app() { printf '%s ProxyPass /app "%s"\n' "$1" "$2"; }

@test "programs that a thread of a back end starts" {
  requires gunicorn
  local port
  port=$(free_port threads)
  start_in_group -l proxy -l proxy_http -v "$(to_app a "http://127.0.0.1:$port")" -v "$(cgi_lines b)"
  cat >"$HTTPD_ROOT/app/a/exec.py" <<'END'
import subprocess

def application(environ, start_response):
    text = subprocess.check_output(["./app.pl"], env={"QUERY_STRING": environ["QUERY_STRING"]})
    start_response("200 OK", [])
    return [text]
END
  cp "$HTTPD_ROOT/htdocs/a/app.pl" "$HTTPD_ROOT/app/a"
  run_app threads "$port" gunicorn --workers 2 --threads 6 --bind "127.0.0.1:$port" --chdir "$HTTPD_ROOT/app/a" exec
  compare 'programs of threads' '/app?ms=40' /page.html 4 1
  at_least "$(status_of a duty_permille)" 300 "permille, duty"
}

@test "gunicorn: over TCP, and one for both sites over a Unix socket" {
  requires gunicorn
  local run=$HTTPD_ROOT/app/run one two
  one=$(free_port one)
  two=$(free_port two)
  start_in_group -l proxy -l proxy_http -v "$(to_app a "http://127.0.0.1:$one")" -v "$(to_app b "http://127.0.0.1:$two")" \
    -v "a ProxyPass /unix unix:$run/g|http://localhost" -v "b ProxyPass /unix unix:$run/g|http://localhost"
  run_app one "$one" gunicorn --workers 4 --bind "127.0.0.1:$one" --chdir "$HTTPD_ROOT/app/a" burn
  run_app two "$two" gunicorn --workers 4 --bind "127.0.0.1:$two" --chdir "$HTTPD_ROOT/app/b" burn
  run_app three "$run/g" gunicorn --workers 8 --bind "unix:$run/g" --chdir "$HTTPD_ROOT/app/a" burn
  compare 'gunicorn, TCP' '/app?ms=20' '/app?ms=0&sleep=50'
  compare 'gunicorn, Unix socket, both sites' '/unix?ms=20' '/unix?ms=0&sleep=50'
}

@test "gunicorn: a socket of the same relative name for each site" {
  requires gunicorn
  local name
  start_in_group -l proxy -l proxy_http -v "a ProxyPass /app unix:$HTTPD_ROOT/app/a/app.sock|http://localhost" \
    -v "b ProxyPass /app unix:$HTTPD_ROOT/app/b/app.sock|http://localhost"
  for name in a b; do
    chmod 777 "$HTTPD_ROOT/app/$name"
    run_app "$name" "$HTTPD_ROOT/app/$name/app.sock" sh -c "cd $HTTPD_ROOT/app/$name && exec gunicorn --workers 2 --bind unix:app.sock burn"
  done
  compare 'gunicorn, relative names' '/app?ms=20' '/app?ms=0&sleep=50'
  is "$(status_json | jq -c '[.vhosts[] | select(.backends != []) | [.name, .backends[0].address]]')" \
    "[[\"a.test\",\"$HTTPD_ROOT/app/a/app.sock\"],[\"b.test\",\"$HTTPD_ROOT/app/b/app.sock\"]]"
}

# Tomcat, with a page that computes and sleeps.
run_tomcat() { # <port for AJP>
  local base=$HTTPD_ROOT/app/run/tomcat home
  home=$(compgen -G '/usr/share/tomcat*/bin/catalina.sh' | sort | sed -n '$p')
  mkdir -p "$base"/{conf,temp,work,webapps/app/WEB-INF}
  chmod 777 "$base"/{temp,work}
  printf '%s\n' '<Server port="-1"><Service name="s">' "<Connector protocol=\"AJP/1.3\" address=\"127.0.0.1\" port=\"$1\" minSpareThreads=\"200\" secretRequired=\"false\"/>" \
    '<Engine name="e" defaultHost="h"><Host name="h"/></Engine></Service></Server>' >"$base/conf/server.xml"
  printf '%s\n' '<web-app><servlet><servlet-name>jsp</servlet-name><servlet-class>org.apache.jasper.servlet.JspServlet</servlet-class></servlet>' \
    '<servlet-mapping><servlet-name>jsp</servlet-name><url-pattern>*.jsp</url-pattern></servlet-mapping></web-app>' >"$base/webapps/app/WEB-INF/web.xml"
  cat >"$base/webapps/app/page.jsp" <<'END'
<%@ page session="false" import="java.lang.management.*" %><%
ThreadMXBean threads = ManagementFactory.getThreadMXBean();
long until = threads.getCurrentThreadCpuTime() + Long.parseLong(request.getParameter("ms")) * 1000000;
while (threads.getCurrentThreadCpuTime() < until);
if (request.getParameter("sleep") != null) Thread.sleep(Long.parseLong(request.getParameter("sleep")));
%>done
END
  run_app tomcat "$1" env CATALINA_HOME="${home%/bin/*}" CATALINA_BASE="$base" JAVA_OPTS=-Xmx128m "$home" run
}

@test "Tomcat: mod_jk and mod_proxy_ajp" {
  requires tomcat mod_jk mod_proxy_ajp
  local port name lines=()
  port=$(free_port ajp)
  for name in list=tomcat tomcat.type=ajp13 tomcat.host=127.0.0.1 "tomcat.port=$port"; do lines+=("JkWorkerProperty worker.$name"); done
  for name in a b; do lines+=(-v "$name JkMount /app/* tomcat" -v "$name ProxyPass /ajp/ ajp://127.0.0.1:$port/app/"); done
  start_in_group -l jk -l proxy -l proxy_http -l proxy_ajp "JkShmFile $HTTPD_ROOT/run/jk" "JkLogFile $HTTPD_ROOT/logs/jk.log" "${lines[@]}"
  run_tomcat "$port"
  VL_APPS_SECONDS=1 load_both '/app/page.jsp?ms=20' /page.html     # it compiles meanwhile
  least=800 most=1250 most_b=20 compare 'Tomcat, mod_jk' '/app/page.jsp?ms=20' /page.html
  at_least "$(status_of a duty_permille)" 500 "permille, of 200 threads four compute"
  # Its threads serve both sites, and it is divided by their requests.
  least=800 most=1250 most_b=700 compare 'Tomcat, mod_proxy_ajp, both sites' '/ajp/page.jsp?ms=20' '/ajp/page.jsp?ms=0&sleep=50'
  begin_crowd jk 10 b '/app/page.jsp?ms=0&sleep=3000'
  begin_crowd ajp 10 b '/ajp/page.jsp?ms=0&sleep=3000'
  sleep_all() { status_at_least b asleep 20 && status_is b runnable_permille 0; }
  wait_until 10 sleep_all
  is "$(crowd_got jk), $(crowd_got ajp)" '10 200, 10 200'
}

run_uwsgi() { # <name> <what it listens at> <option> <app> [<option>...]
  run_app "$1" "${2#*:}" uwsgi --plugin python3 --master --die-on-term --processes 8 "--$3" "$2" --wsgi-file "$HTTPD_ROOT/app/$4/burn.py" "${@:5}"
}

@test "uWSGI: mod_proxy_uwsgi, SCGI, FastCGI, members of a balancer, threads, two addresses" {
  requires uwsgi mod_proxy_uwsgi mod_proxy_scgi mod_proxy_fcgi mod_proxy_balancer
  local run=$HTTPD_ROOT/app/run one two three name lines=()
  one=$(free_port one)
  two=$(free_port two)
  three=$(free_port three)
  for name in a b; do
    lines+=(-v "$name ProxyPass /uwsgi unix:$run/u|uwsgi://localhost" -v "$name ProxyPass /scgi scgi://127.0.0.1:$one"
      -v "$name ProxyPass /fcgi unix:$run/f|fcgi://localhost" -v "$name ProxyPass /members balancer://members"
      -v "$name ProxyPass /threads unix:$run/t|uwsgi://threads")
  done
  start_in_group -l proxy -l proxy_http -l proxy_uwsgi -l proxy_scgi -l proxy_fcgi -l slotmem_shm -l proxy_balancer -l lbmethod_byrequests \
    $'<Proxy balancer://members>\n'"BalancerMember http://127.0.0.1:$two"$'\n'"BalancerMember unix:$run/u|uwsgi://localhost"$'\n</Proxy>' "${lines[@]}" \
    -v "a ProxyPass /both unix:$run/both|uwsgi://both" -v "b ProxyPass /both http://127.0.0.1:$three"
  run_uwsgi u "$run/u" socket a
  run_uwsgi s "127.0.0.1:$one" scgi-socket a
  run_uwsgi f "$run/f" fastcgi-socket a
  run_uwsgi m "127.0.0.1:$two" http-socket a
  run_uwsgi t "$run/t" socket a --threads 8
  run_uwsgi both "$run/both" socket a --http-socket "127.0.0.1:$three"
  if is_long; then
    compare 'uWSGI' '/uwsgi?ms=20' '/uwsgi?ms=0&sleep=50'
    compare 'FastCGI, not PHP' '/fcgi?ms=20' '/fcgi?ms=0&sleep=50'
  fi
  compare 'SCGI' '/scgi?ms=20' '/scgi?ms=0&sleep=50'
  compare 'members of a balancer, HTTP and uwsgi' '/members?ms=20' '/members?ms=0&sleep=50'
  # Threads of one process serve both sites, and it is divided by their requests.
  most_b=600 compare 'uWSGI, 8 threads each' '/threads?ms=20' '/threads?ms=0&sleep=50'
  is_found() { get b '/both?ms=20&sleep=500' >/dev/null; [[ $(status_json) == *":$three\""* ]]; }
  wait_until 20 is_found        # the processes, at the other address
  compare 'uWSGI, two addresses' '/both?ms=20' '/both?ms=0&sleep=50'
}

@test "requests that sleep in an event loop hold nearly no slot" {
  requires gunicorn
  local port
  port=$(free_port loop)
  start_in_group -l proxy -l proxy_http -v "$(to_app b "http://127.0.0.1:$port")"
  cat >"$HTTPD_ROOT/app/run/loop.py" <<'END'
import asyncio, sys

async def answer(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    await asyncio.sleep(0.1)
    writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nslept")
    await writer.drain()
    writer.close()

async def serve():
    async with await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()

asyncio.run(serve())
END
  run_app loop "$port" python3 "$HTTPD_ROOT/app/run/loop.py" "$port"
  is "$(get b /app)" 200
  load_both /page.html /app 1 4
  at_most "$(status_of b duty_permille)" 100 "permille, duty of requests that sleep"
}

@test "many requests that sleep in one process with threads share its duty" {
  requires gunicorn
  local port
  port=$(free_port threads)
  start_in_group -l proxy -l proxy_http -v "$(to_app b "http://127.0.0.1:$port")"
  run_app threads "$port" gunicorn --workers 1 --threads 62 --bind "127.0.0.1:$port" --chdir "$HTTPD_ROOT/app/b" burn
  begin_request busy b '/app?ms=6000'
  load_both /page.html '/app?ms=0&sleep=300' 1 50
  at_most "$(status_of b duty_permille)" 150 "permille, with one thread of fifty that computes"
  wait_until 40 answered busy
}

# A server that starts a thread for each request, and programs whose first thread waits for another one.
@test "requests that wait for threads which begin meanwhile want a processor" {
  requires php_fpm mod_proxy_fcgi gunicorn
  local run=$HTTPD_ROOT/app/run port site pids=()
  port=$(free_port threads)
  start_in_group -l proxy -l proxy_http -l proxy_fcgi -v "$(to_app a "http://127.0.0.1:$port/")" -v "$(cgi_lines b)" -v "$(php_at c "unix:$run/p|fcgi://p/")"
  start_fpm fpm p="$run/p"
  cat >"$run/threads.py" <<'END'
#!/usr/bin/python3
import http.server, sys, threading, time

def burn():
    until = time.thread_time() + 0.3
    while time.thread_time() < until:
        pass

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        burn()
        self.send_response(200)
        self.end_headers()

if len(sys.argv) > 1:
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
thread = threading.Thread(target=burn)
thread.start()
thread.join()
print("Content-Type: text/plain\r\n\r\ndone")
END
  for site in a b c; do install -m 755 "$run/threads.py" "$HTTPD_ROOT/htdocs/$site/app.pl"; done
  echo '<?php echo shell_exec("./app.pl");' >"$HTTPD_ROOT/htdocs/c/exec.php"
  run_app threads "$port" python3 "$run/threads.py" "$port"
  for site in a/app b/app.pl c/exec.php; do
    is "$(get "${site%/*}" "/${site#*/}")" 200
    VL_APPS_SECONDS=3 begin_load "${site%/*}" 1 "/${site#*/}"
    pids+=("$!")
  done
  wait "${pids[@]}"
  for site in a b c; do at_least "$(status_of $site duty_permille)" 500 "permille, duty of $site"; done
}

# One master, an address and three workers for each site. The first worker of a has the listening socket of b at the
# beginning, as all workers of PHP-FPM have those of all pools until they close them.
@test "a worker with listening sockets of its parent belongs to its own site" {
  local run=$HTTPD_ROOT/app/run
  start_in_group -l proxy -l proxy_http -v "$(to_app a "unix:$run/a|http://a")" -v "$(to_app b "unix:$run/b|http://b")"
  cat >"$run/two.py" <<'END'
import os, signal, socket, sys, time
os.setpgrp()
signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
listen = []
for path in sys.argv[1:]:
    listen.append(socket.socket(socket.AF_UNIX))
    listen[-1].bind(path)
    os.chmod(path, 0o777)
    listen[-1].listen(64)
for site in (0, 1):
    for worker in range(3):
        if os.fork():
            continue
        if (site, worker) == (0, 0):
            time.sleep(0.7)
        listen[1 - site].close()
        while True:
            client = listen[site].accept()[0]
            client.recv(8192)
            until = time.process_time() + 0.02
            while site == 0 and time.process_time() < until:
                pass
            time.sleep(0.05 * site)
            client.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\ndone")
            client.close()
os.wait()
END
  run_app two "$run/b" python3 "$run/two.py" "$run/a" "$run/b"
  begin_request first b /app
  begin_request second b /app
  begin_request third a /app
  wait_until 10 answered first second third
  compare 'two addresses of one master' /app /app
}

UPGRADE='GET /ws HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'

# A WebSocket holds no slot. Its back end works for each message.
@test "the back end of a WebSocket is charged, also of one that has begun in a dormant server" {
  requires mod_proxy_wstunnel
  local port before socket_pid i messages=()
  port=$(free_port socket)
  start_in_group -l proxy -l proxy_wstunnel -v "a ProxyPass /ws ws://127.0.0.1:$port/"
  run_app socket "$port" perl "$TOP/t/lib/websocket_echo.pl" "$port" 60 20
  for i in {1..150}; do messages+=("message $i." "@until:message $i\\."); done
  before=$(kernel_us)
  in_background socket packets "$UPGRADE" '@until:101 .*\r\n\r\n' "${messages[@]}" "@when:$BATS_TEST_TMPDIR/go" @half
  has_used() { (($(kernel_us) - before > 2500000)); }
  wait_until 60 has_used
  is "$(status_of a running)" 0
  charged() { (($(status_of a backend_us) * 10 > ($(kernel_us) - before) * 7)); }
  wait_until 10 charged
  at_most "$(status_of a backend_us)" $((($(kernel_us) - before) * 13 / 10)) "us charged"
  touch "$BATS_TEST_TMPDIR/go"
  wait "$socket_pid"
}

# None of the requests has anything to do. A CONNECT is for the first virtual host. mod_perl serves no request, of
# any kind, while all of its interpreters are taken.
@test "long-lived requests of each kind hold no slot and are charged nothing, and another site is served beside them" {
  requires gunicorn mod_lua mod_perl mod_proxy_wstunnel mod_proxy_connect
  local app echo kind text from before clients=() kinds=(connect socket tunnel plain ndjson poll lua perl) at=()
  # shellcheck disable=SC2034  # of apps.bash
  local SIZE=(-t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadLimit 320' -t 'ThreadsPerChild 320'
    -t 'MaxRequestWorkers 320' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 320')
  app=$(free_port app) echo=$(free_port echo)
  for kind in plain ndjson poll; do at+=(-v "$kind ProxyPass / http://127.0.0.1:$app/"); done
  start_in_group -o "${kinds[*]} b" 'Timeout 120' -l proxy -l proxy_http -l proxy_wstunnel -l proxy_connect -l lua -l perl "${at[@]}" \
    -v "socket ProxyPass / http://127.0.0.1:$echo/ upgrade=websocket" \
    -v "tunnel ProxyPass / ws://127.0.0.1:$echo/" -v 'tunnel ProxyWebsocketFallbackToProxyHttp Off' \
    -v 'connect ProxyRequests On' -v "connect AllowCONNECT $echo" -v "lua LuaMapHandler / $HTTPD_ROOT/app/run/wait.lua" \
    "PerlSwitches -I$HTTPD_ROOT/app/run" 'PerlInterpMax 30' -v $'perl <Location />\nSetHandler modperl\nPerlResponseHandler Wait\n</Location>'
  cat >"$HTTPD_ROOT/app/run/long.py" <<'END'
import time

def application(environ, start_response):
    kind = environ["PATH_INFO"]
    if kind == "/poll":
        time.sleep(100)
    start_response("200 OK", [("Content-Type", "application/x-ndjson" if kind == "/ndjson" else "text/plain")])
    yield b"{}\n"
    time.sleep(100)
END
  printf '%s\n' 'function handle(r)' "while not io.open('$HTTPD_ROOT/hold/go') do r.usleep(1000000) end" 'return 0 end' >"$HTTPD_ROOT/app/run/wait.lua"
  printf '%s\n' 'package Wait;' 'use Apache2::RequestRec;' "sub handler { sleep 1 until -e '$HTTPD_ROOT/hold/go'; 0 }" 1 >"$HTTPD_ROOT/app/run/Wait.pm"
  run_app echo "$echo" perl "$TOP/t/lib/websocket_echo.pl" "$echo" 100
  run_app app "$app" gunicorn --threads 80 --graceful-timeout 1 --bind "127.0.0.1:$app" --chdir "$HTTPD_ROOT/app/run" long
  for kind in "${kinds[@]}"; do
    case $kind in
      socket | tunnel) text=${UPGRADE/a.test/$kind.test} ;;
      connect) text="CONNECT 127.0.0.1:$echo HTTP/1.1\r\nHost: connect.test\r\n\r\n" ;;
      *) text="GET /$kind HTTP/1.1\r\nHost: $kind.test\r\n\r\n" ;;
    esac
    in_background "$kind" exec_packets --idle 25 100 "$text"
    clients+=($!)
  done
  sum_of() { local sum=0; for kind in "${kinds[@]}"; do sum=$((sum + $(status_of "$kind" "$1"))); done; echo "$sum"; }   # <column>
  are_open() { (($(sum_of requests) == 200)); }
  wait_until 20 are_open
  VL_APPS_SECONDS=100 begin_load b 60 /page.html
  clients+=($!)
  hold_none() { (($(sum_of runnable_permille) <= 400)); }     # some may look at their file
  wait_until 20 hold_none
  from=$(status_of b requests) before=$(sum_of charged_us)
  time_passes 1500
  at_most $(($(sum_of charged_us) - before)) 100000 "us charged to them"
  at_most "$(sum_of runnable_permille)" 400 "permille of a slot"
  at_least $(($(status_of b requests) - from)) 100 "requests of the other site"
  is "$(status_of b refused) $(status_json | jq -r .state.is)" '0 engaged'
  stop_app app
  time_passes 1000
  is "$(error_log | grep -c VL0078)" 0 "warnings about a back end that was stopped"
  kill "${clients[@]}"
  touch "$HTTPD_ROOT/hold/go"
}
