# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# For the scripts of this folder: a Debian root with pinned packages, in namespaces of its own.

set -euo pipefail
ROOTS=()

# root SUITE PACKAGE[=VERSION]...: unpacks the packages and what they depend on below $ROOT, which
# is removed at the end. A second call makes a second root. No maintainer script runs. Exits 77 if a version cannot be had.
root() {
  local suite=$1 apt entry; shift
  ((EUID == 0)) || { echo "needs root"; exit 77; }
  ROOT=$(mktemp -d); export ROOT
  ROOTS+=("$ROOT")
  trap 'rm -rf --one-file-system "${ROOTS[@]}"' EXIT
  chmod 755 "$ROOT"
  apt=$ROOT/apt
  mkdir -p "$apt"/{lists/partial,cache/archives/partial} "$ROOT"/{dev,etc,proc,root,run,tmp,w} \
    "$ROOT"/usr/{bin,sbin,lib,lib64} "$ROOT"/var/{lib/nginx,log/nginx,tmp}
  chmod 1777 "$ROOT/tmp"
  for entry in bin sbin lib lib64; do ln -s "usr/$entry" "$ROOT/$entry"; done
  ln -s ../run "$ROOT/var/run"
  touch "$apt/status"
  {
    echo "deb http://deb.debian.org/debian $suite main"
    echo "deb http://deb.debian.org/debian-security $suite-security main"
  } >"$apt/sources"
  cat >"$apt/conf" <<END
Dir::State "$apt"; Dir::State::status "$apt/status"; Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "$apt/sources"; Dir::Etc::sourceparts "-"; APT::Sandbox::User "root";
APT::Install-Recommends "0"; Acquire::Languages "none";
END
  { APT_CONFIG=$apt/conf apt-get -qq update && APT_CONFIG=$apt/conf apt-get -qq -y --download-only install "$@"; } \
    >"$apt/log" 2>&1 || { tail -n 3 "$apt/log"; echo "Debian $suite does not have $*"; exit 77; }
  for entry in "$apt"/cache/archives/*.deb; do dpkg -x "$entry" "$ROOT"; done
  rm -rf "$apt"
  printf '%s\n' root:x:0:0::/root:/bin/sh www-data:x:33:33::/:/bin/false nobody:x:65534:65534::/:/bin/false >"$ROOT/etc/passwd"
  printf '%s\n' root:x:0: www-data:x:33: nogroup:x:65534: >"$ROOT/etc/group"
  echo 127.0.0.1 localhost >"$ROOT/etc/hosts"
  echo "software: Debian $suite, $*"
}

# isolated FUNCTION: runs the function in namespaces of its own for mounts, processes and network
# (loopback only). The processes that it started end with it.
isolated() {
  # shellcheck disable=SC2046  # names of functions
  export -f $(compgen -A function)
  # shellcheck disable=SC2016  # the inner shell expands it
  unshare --mount --pid --net --fork --kill-child --mount-proc bash -euo pipefail -c '
    ip link set lo up; mount -t proc proc "$ROOT/proc"; mount --rbind /dev "$ROOT/dev"; "$1"' - "$1"
}

in_root() { chroot "$ROOT" "$@"; }

# httpd MODULE...: starts httpd with these modules, 25 threads in one process, and the
# configuration on stdin. Files below / of the server are those of /w in the root.
httpd() {
  {
    printf 'LoadModule %s_module /usr/lib/apache2/modules/mod_%s.so\n' mpm_event{,} authz_core{,}
    for module in "$@"; do echo "LoadModule ${module}_module /usr/lib/apache2/modules/mod_$module.so"; done
    printf '%s\n' 'Listen 127.0.0.1:80' 'ServerName localhost' 'User www-data' 'Group www-data' 'ErrorLog /w/error.log' \
      'PidFile /tmp/httpd.pid' 'DefaultRuntimeDir /tmp' 'DocumentRoot /w' 'StartServers 1' 'ServerLimit 1' \
      'ThreadsPerChild 25' 'MaxRequestWorkers 25' 'MinSpareThreads 1' 'MaxSpareThreads 25'
    cat
  } >"$ROOT/w/httpd.conf"
  in_root apache2 -f /w/httpd.conf
  until_listening 80
}

# fpm_pool: configures PHP-FPM with a pool at port 9000, and with the lines on stdin for it.
fpm_pool() {
  {
    printf '%s\n' '[global]' 'error_log = /w/fpm.log' '[pool]' 'user = www-data' 'listen = 127.0.0.1:9000'
    cat
  } >"$ROOT/w/fpm.conf"
}

# backend: starts an HTTP server at port 8001. It answers /SECONDS after this time, and /SECONDS?STATUS
# with this status.
backend() {
  cat >"$ROOT/w/backend.py" <<'END'
import http.server, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        seconds, _, status = self.path[1:].partition('?')
        time.sleep(float(seconds))
        self.send_response(int(status or 200))
        self.end_headers()
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer.request_queue_size = 100
http.server.ThreadingHTTPServer(('127.0.0.1', 8001), Handler).serve_forever()
END
  chroot "$ROOT" python3 /w/backend.py &
  until_listening 8001
}

# until_listening PORT: waits until a server accepts connections.
until_listening() {
  local tries
  for ((tries = 0; tries < 100; tries++)); do
    ! (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null || return 0
    sleep 0.1
  done
  echo "nothing listens on port $1"; exit 1
}

# seen TEXT CONDITION: prints what was seen. Exits 1 unless the arithmetic condition is true.
seen() {
  echo "seen: $1"
  (($2)) || { echo "CHANGED: expected $2"; exit 1; }
}
