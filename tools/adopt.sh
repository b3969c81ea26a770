#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: try the package on this Debian machine: install it, name the site that takes the
#          workers, remove it, and show that nothing is left
# Usage:   adopt.sh PACKAGE
#   PACKAGE      libapache2-mod-vhostlimit_*.deb, as `make deb` builds it
#   -h, --help   this help
#   --version    the version
#   Apache runs with its sites, and is restarted twice. The module delays nothing (DryRun). Each
#   command is printed before it runs, and each half ends with its seconds.
# Exit:    0 a site was named, and nothing is left; 1 failed; 2 usage; 77 cannot run: not root, no
#          Apache, or the module is installed already

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/poll.sh"

before=

installed() { dpkg-query -W -f '${Package}\n' | sort; }

# Kinds, modes, owners and contents. The linker's cache also lists libraries that the package needs.
etc_state() {
  find /etc -path /etc/ld.so.cache -o -printf '%y %m %U:%G %p %l\n' | sort
  find /etc -type f ! -path /etc/ld.so.cache -exec sha256sum {} + | sort
}

busiest() { # sets site, the one with most running requests
  local table running
  table=$(vhostlimitctl top running 2>/dev/null) || return 1
  read -r site _ _ running _ < <(sed '1,/^SITE /d' <<<"$table") || return 1
  [[ $running == [1-9]* ]]
}

left() { # <what> <text>: prints how many lines
  local n
  n=$(grep -c . <<<"$2") || :
  printf '%-10s left: %d\n' "$1" "$n"
  [[ $n == 0 ]] || { printf '%s\n' "$2"; failed=yes; }
}

adopt() {
  local begin=$SECONDS site=
  run apt-get install -qy "$package"
  run a2enmod vhostlimit
  run service apache2 restart
  run vhostlimitctl top running
  poll_until 30 busiest || die "no request is running: the server is idle"
  run vhostlimitctl explain "$site"
  printf 'The site that takes the workers: %s (%d s)\n' "$site" $((SECONDS - begin))
}

leave() {
  local begin=$SECONDS failed='' remaining added
  mapfile -t added < <(installed | comm -13 "$before.packages" -)
  run apt-get purge -qy "${added[@]}"
  run service apache2 restart
  left files "$(find /etc /usr /var /run -xdev -iname '*vhostlimit*' ! -path '/etc/netns/*' ! -path '*.deb' -newer "$before" 2>/dev/null)"
  left processes "$(pgrep -l '^(vl-|vhostlim)' || :)"
  left cgroups "$(find /sys/fs/cgroup -type d -path '*/vhostlimit/*' -newer "$before" 2>/dev/null)"
  remaining=$(diff "$before" <(etc_state) || :)
  left '/etc' "$(grep '^[<>]' <<<"$remaining")"
  printf 'Removed (%d s)\n' $((SECONDS - begin))
  [[ -z $failed ]]
}

main() {
  parse_options '' '' "$@"
  set -- "${words[@]}"
  (($# == 1)) || misuse "one package is needed"
  [[ -f $1 ]] || misuse "there is no file $1"
  package=$(realpath "$1")
  need_root
  [[ -e /etc/apache2/apache2.conf ]] || cannot "there is no Apache of Debian"
  [[ ! -e /etc/apache2/mods-available/vhostlimit.load ]] || cannot "the module is installed already"
  before=$(mktemp)
  trap 'rm -f "$before" "$before.packages"' EXIT
  etc_state >"$before"
  installed >"$before.packages"
  adopt
  leave
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
