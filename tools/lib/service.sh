# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# What a test needs besides Apache and PHP-FPM: from packages, run for this bed only.

. "${BASH_SOURCE[0]%/*}/postgresql.sh"
. "${BASH_SOURCE[0]%/*}/mariadb.sh"

service_packages() { # <service>...: their roles
  local service
  for service; do
    case $service in
      postgresql) echo postgresql phppgsql ;;
      mariadb) echo mariadb phpmysql ;;
      *) echo "$service" ;;
    esac
  done
}

service_prepare() { # <service>: once, when the bed is up
  case $1 in postgresql | mariadb) "$1_prepare" ;; esac
}

declare -A service_roots=()     # scene: the folder with its applications

service_root() { printf '%s\n' "${service_roots[$1]-}"; }       # <scene>

# Sets up each measured application in each folder.
service_apps() { # <page>...
  local scene root n=0 app
  for scene in "${test_scenes[@]}"; do
    [[ -n ${test[docroot:$scene]-} ]] || continue
    n=$((n + 1))
    root=$(app_root "${test[docroot:$scene]}")
    for app; do app_install "$app" "$root" "$n"; done
    service_roots[$scene]=$root
  done
}
