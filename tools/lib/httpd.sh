# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The distribution's Apache, run with a configuration of our own.
# Asks apxs where things are, so that Debian's and Red Hat's names both work.

httpd_apxs() {
  command -v apxs || command -v apxs2 || cannot "apxs (package apache2-dev or httpd-devel) is not installed"
}

httpd_binary() {
  local apxs
  apxs=$(httpd_apxs)
  printf '%s/%s\n' "$("$apxs" -q SBINDIR)" "$("$apxs" -q PROGNAME)"
}

httpd_module_dir() { "$(httpd_apxs)" -q LIBEXECDIR; }
httpd_version()    { "$1" -v | sed -n 's/^Server version: *//p'; }

httpd_user() { # the account that the distribution gives its web server
  local name
  for name in www-data apache; do
    ! id "$name" >/dev/null 2>&1 || { printf '%s\n' "$name"; return; }
  done
  cannot "neither the user www-data nor apache exists"
}

httpd_mime_types() {
  local file
  for file in /etc/mime.types "$("$(httpd_apxs)" -q SYSCONFDIR)/mime.types"; do
    [[ ! -r $file ]] || { printf '%s\n' "$file"; return; }
  done
  cannot "no mime.types found (package media-types or mailcap)"
}

httpd_load_lines() { # <binary> <module>...: LoadModule for what is not built in
  local binary=$1 dir builtin name
  shift
  dir=$(httpd_module_dir)
  builtin=$("$binary" -l)
  for name; do
    if [[ -e $dir/mod_$name.so ]]; then
      printf 'LoadModule %s_module %s\n' "$name" "$dir/mod_$name.so"
    elif ! grep -qx " *mod_$name.c" <<<"$builtin" ; then
      die "Apache's mod_$name is not installed in $dir"
    fi
  done
}

httpd_check() { # <binary> <config>
  local message
  message=$("$1" -t -f "$2" 2>&1) || die "Apache rejects its configuration: $message"
}

httpd_ports_free() { # <file of the namespace> <port>...
  local port owner
  for port in "${@:2}"; do
    owner=$(netns_listener "$1" "$port")
    [[ -z $owner ]] ||
      cannot "port $port is taken in network namespace ${1##*/} by process ${owner% *} (${owner#* })"
  done
}

