# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# PHP-FPM of whatever version the distribution has.

fpm_binary() { # the newest
  local path
  path=$(compgen -G '/usr/sbin/php-fpm*' | sort -V | tail -n 1) || true
  [[ -n $path ]] || return 1
  printf '%s\n' "$path"
}

fpm_version() { "$1" -v | sed -n '1s/ (.*//p'; }

fpm_check() { # <binary> <config>
  local message
  message=$("$1" -t -y "$2" 2>&1) || die "PHP-FPM rejects its configuration: $message"
}
