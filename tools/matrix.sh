#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: build the module, run its unit tests and t/smoke.sh, and build its package,
#          on several systems, each of them a pristine Debian root; prints a table
# Usage:   matrix.sh [OPTION]... [CELL]...
#   CELL         run these cells only (default: all; -l lists them)
#   -l           list the cells
#   --httpd NAME=DIR
#                adds the cell rh-NAME, on Debian 12: an Apache that is not from Debian's
#                packages, in the Red Hat layout. DIR has its files as
#                `make install DESTDIR=DIR` leaves them: usr/sbin/httpd, usr/bin/apxs,
#                usr/lib64/httpd/modules, etc/httpd. It has to be built on Debian 12 with
#                Debian's APR. May be given several times.
#   --keep       keep the roots, and print their folders
#   -o DIR       where the logs go (default: results/matrix-DATE), one for each cell
#   -h, --help   this text
#   --version    print the version
# A cell builds with warnings as errors. Its smoke test runs with each MPM that its Apache
# has. In a rh-NAME cell the package is the RPM, built from packaging/mod_vhostlimit.spec;
# in the others it is the Debian package, which is always built with libcgroup. Either is
# installed, Apache has to accept its configuration, and its module is smoke-tested.
# Exit:    0 every cell passed; 1 one failed; 2 usage; 77 cannot run here

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/packages.sh"
. "$here/lib/pristine.sh"

# name, suite, options of configure
cells='
debian-11                     bullseye
debian-12                     bookworm  --with-libcgroup
debian-12-without-libcgroup   bookworm  --without-libcgroup
debian-13                     trixie    --with-libcgroup
debian-13-without-libcgroup   trixie    --without-libcgroup
debian-sid                    sid       --with-libcgroup
'
declare -A trees=()             # cell -> folder of --httpd
keep='' out='' failed=0 passed=0
source_folder=/root/mod_vhostlimit

all_cells() { # name suite option
  awk NF <<<"$cells"
  local cell
  for cell in "${!trees[@]}"; do printf '%s bookworm --without-libcgroup\n' "$cell"; done | sort
}

list() {
  all_cells | awk '{ printf "%-29s %s %s\n", $1, $2, $3 }'
  ((${#trees[@]})) || echo "rh-NAME                       for each --httpd NAME=DIR"
}

add_tree() { # <NAME=DIR>
  [[ $1 =~ ^([a-zA-Z0-9._-]+)=(.+)$ ]] || misuse "--httpd needs NAME=DIR, not '$1'"
  local name=${BASH_REMATCH[1]} folder=${BASH_REMATCH[2]}
  [[ -x $folder/usr/sbin/httpd && -x $folder/usr/bin/apxs && -d $folder/usr/lib64/httpd/modules ]] ||
    misuse "$folder is not an Apache in the Red Hat layout: usr/sbin/httpd, usr/bin/apxs or usr/lib64/httpd/modules is missing"
  trees[rh-$name]=$(cd -- "$folder" && pwd)
}

parse() {
  local list=''
  parse_options lo: httpd:,keep "$@"
  set -- "${words[@]}"
  while [[ $1 != -- ]]; do
    case $1 in
      -l) list=yes ;;
      --httpd) add_tree "$2"; shift ;;
      --keep) keep=yes ;;
      -o) out=$2; shift ;;
    esac
    shift
  done
  shift
  [[ -z $list ]] || { list; exit 0; }
  wanted=("$@")
  local cell
  for cell; do
    all_cells | awk -v cell="$cell" '$1 == cell { found = 1 } END { exit !found }' ||
      misuse "unknown cell '$cell' (-l lists the cells)"
  done
}

# ---- what runs in the root ---------------------------------------------------

# Its standard output is "key value" lines for the table; the rest goes to the log.
cell_main() { # <name> <option of configure>
  local name=$1 option=$2 status mpm smoked='' apache=/usr/sbin/apache2
  export MAKEFLAGS=-j2
  exec 3>&1 1>&2
  tell() { printf '%s %s\n' "$1" "${*:2}" >&3; }
  stage() { # <key> <command>...
    local key=$1 begin=$SECONDS
    shift
    echo "=== $key: $*"
    if ("$@") </dev/null; then tell "$key" ok; else tell "$key" FAILED; echo "=== $key failed after $((SECONDS - begin)) s"; return 1; fi
  }
  [[ $name != rh-* ]] || apache=/usr/sbin/httpd

  stage packages cell_packages "$name" "$option" || return 1
  cell_apache "$name"
  tell apache "$("$apache" -v | sed -n 's/^Server version: Apache.\([^ ]*\).*/\1/p')"
  tell compiler "gcc $(gcc -dumpfullversion)"
  tell libcgroup "$(pkg-config --modversion libcgroup 2>/dev/null || echo none)"
  cd /root/mod_vhostlimit || return 1
  stage build cell_build "$option" || return 1
  tell used "$(ldd mod_vhostlimit/.libs/mod_vhostlimit.so | grep -o 'libcgroup\.so\.[0-9]*' | sed -n 1p || true)"
  stage unit cell_unit
  for mpm in event worker prefork motorz; do
    [[ -e $(apxs -q LIBEXECDIR)/mod_mpm_$mpm.so ]] || continue
    status=0
    t/smoke.sh -p "$apache" -d "$(apxs -q LIBEXECDIR)" -m mod_vhostlimit/.libs/mod_vhostlimit.so -M "$mpm" 3>&- || status=$?
    smoked+=" $mpm:$( ((status == 0)) && echo ok || echo FAILED)"
  done
  tell smoke "${smoked# }"
  if [[ $name == rh-* ]]; then
    stage package cell_rpm
  elif [[ $option == --without-libcgroup ]]; then
    tell package -
  else
    stage package cell_deb
  fi
}

cell_packages() { # <cell> <option of configure>
  local packages=(gcc libc6-dev make autoconf automake libtool pkg-config libjansson-dev libhiredis-dev libseccomp-dev libssl-dev perl curl ca-certificates)
  if [[ $1 == rh-* ]]; then
    packages+=(libapr1-dev libaprutil1-dev libpcre2-8-0 libpcre3 libnghttp2-14 libssl3 zlib1g libxml2 libcurl4 rpm cpio jq)
  else
    packages+=(build-essential apache2 apache2-dev debhelper libexpat1-dev)
  fi
  [[ $2 == --without-libcgroup ]] || packages+=(libcgroup-dev)
  apt-get update -q || return 1
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
  chmod 755 /usr/sbin/policy-rc.d
  apt-get install -qy --no-install-recommends "${packages[@]}" && return
  # at the end of a suite's life a mirror may list security updates that it does not have
  sed -i '/-security/d' /etc/apt/sources.list
  apt-get update -q && apt-get install -qy --no-install-recommends "${packages[@]}" || return 1
  tell note "without security updates, which the mirror lacks"
}

# Installs the Apache of --httpd, and creates the user of Red Hat's package.
cell_apache() { # <cell>
  [[ $1 == rh-* ]] || return 0
  cp -a /root/httpd-tree/. /
  groupadd -r -g 48 apache
  useradd -r -u 48 -g apache -d /usr/share/httpd -s /usr/sbin/nologin apache
  mkdir -p /run/httpd /var/log/httpd /etc/httpd/conf.d /etc/httpd/conf.modules.d
  ln -sfn /usr/lib64/httpd/modules /etc/httpd/modules
  ln -sfn /var/log/httpd /etc/httpd/logs
  ldconfig
}

cell_build() { # <option of configure>
  # shellcheck disable=SC2086  # none or one
  ./autogen.sh && ./configure --enable-werror $1 && make -s
}

cell_unit() { make -s -C t/unit check && prove --ext .t t/unit; }

cell_deb() {
  make -s deb DEB_BUILD_OPTIONS=nocheck &&
    apt-get install -qy --no-install-recommends ./deb/libapache2-mod-vhostlimit_*.deb ./deb/vhostlimit-fleet_*.deb &&
    vhostlimit-fleet -t &&
    a2enmod vhostlimit && apache2ctl -t &&
    apache2ctl -M | grep vhostlimit_module && t/smoke.sh
}

# --nodeps: rpmbuild does not know Debian's packages. _unitdir: Debian has no macros for systemd.
cell_rpm() {
  local rpm
  make -s dist || return 1
  rpmbuild -tb --nodeps --without libcgroup --define '_libdir /usr/lib64' --define '_topdir /root/rpmbuild' \
    --define '_httpd_mmn none' --define '_unitdir /usr/lib/systemd/system' mod_vhostlimit-*.tar.gz || return 1
  rpm=$(compgen -G '/root/rpmbuild/RPMS/*/mod_vhostlimit-[0-9]*.rpm' | sed -n 1p)
  rpm -qlp "$rpm"
  (cd / && rpm2cpio "$rpm" | cpio -idmu) || return 1
  cat >/etc/httpd/conf/rpm-test.conf <<'END'
ServerRoot /etc/httpd
Listen 127.0.0.1:8088
ServerName rpm.test
User apache
Group apache
LoadModule mpm_event_module modules/mod_mpm_event.so
LoadModule unixd_module modules/mod_unixd.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule authz_host_module modules/mod_authz_host.so
LoadModule log_config_module modules/mod_log_config.so
Include conf.modules.d/10-vhostlimit.conf
Include conf.d/vhostlimit.conf
END
  httpd -f /etc/httpd/conf/rpm-test.conf -t && httpd -f /etc/httpd/conf/rpm-test.conf -M | grep vhostlimit_module &&
    t/smoke.sh
}

# ---- the cells ---------------------------------------------------------------

run_cell() { # <name> <suite> <option of configure>
  local name=$1 suite=$2 option=${3-} log=$out/$1.log facts=$out/$1.facts begin=$SECONDS status=0 functions
  mapfile -t functions < <(compgen -A function cell_)
  say "$name: creating a root of Debian $suite"
  : >"$facts"
  # a suite that cannot be created fails its own cell only
  if (pristine_make_base "$suite") && pristine_make "$suite" && clone; then
    if [[ ${trees[$name]-} ]]; then
      mkdir "$pristine_root/root/httpd-tree"
      cp -a "${trees[$name]}/." "$pristine_root/root/httpd-tree/"
    fi
    say "$name: building and testing; see $log"
    pristine_run /root nice -n 10 bash -c "$(declare -f "${functions[@]}")"'; cell_main "$@"' cell "$name" "$option" \
      >"$facts" 2>"$log" || status=$?
  else
    status=1
  fi
  cell_finish
  if ((status == 0)) && ! grep -q FAILED "$facts"; then
    passed=$((passed + 1))
    say "$name: passed in $((SECONDS - begin)) s"
  else
    failed=$((failed + 1))
    say "$name: FAILED after $((SECONDS - begin)) s"
    tail -n 15 "$log" >&2 || true
  fi
}

cell_finish() {
  if [[ $keep && ${pristine_root-} ]]; then
    pristine_keep
    say "kept ${pristine_root%/root}"
    pristine_root=
  else
    pristine_remove
  fi
}

clone() {
  local safe
  safe=$(mktemp)
  printf '[safe]\n\tdirectory = *\n' >"$safe"
  GIT_CONFIG_GLOBAL=$safe git clone -q --no-hardlinks "$top" "$pristine_root$source_folder" || { say "git could not clone $top"; return 1; }
  rm -f "$safe"
}

fact() { sed -n "s/^$2 //p" "$out/$1.facts"; } # <cell> <key>

table() {
  local name suite option
  printf '| cell | Apache | compiler | libcgroup | build | unit tests | smoke test | package |\n'
  printf '|---|---|---|---|---|---|---|---|\n'
  while read -r name suite option; do
    [[ -e $out/$name.facts ]] || continue
    printf '| %s | %s | %s | %s | %s | %s | %s | %s |\n' "$name" "$(fact "$name" apache)$(sed -n 's/^note \(.*\)/ (\1)/p' "$out/$name.facts")" "$(fact "$name" compiler)" \
      "$(libcgroup_cell "$name")" "$(fact "$name" build)" "$(fact "$name" unit)" "$(fact "$name" smoke)" "$(fact "$name" package)"
  done < <(all_cells)
}

libcgroup_cell() { # <cell>
  local version
  version=$(fact "$1" libcgroup)
  case $version:$(fact "$1" used) in
    none:* | *:libcgroup* | :*) printf '%s' "$version" ;;
    *) printf '%s, not used' "$version" ;;
  esac
}

main() {
  local name suite option
  parse "$@"
  pristine_need
  : "${out:=$(in_tree "results/matrix-$(date -u +%Y%m%dT%H%M%SZ)")}"
  mkdir -p "$out"
  out=$(cd -- "$out" && pwd)
  pristine_root=
  on_exit cell_finish
  say "testing commit $(git -c safe.directory='*' -C "$top" rev-parse --short HEAD)"
  while read -r name suite option <&4; do
    ((${#wanted[@]} == 0)) || [[ " ${wanted[*]} " == *" $name "* ]] || continue
    run_cell "$name" "$suite" "$option"
  done 4< <(all_cells)
  ((${#trees[@]})) || say "no Apache in the Red Hat layout was tested; name one with --httpd"
  table | tee "$out/table.md"
  say "$passed cells passed, $failed failed; logs and table.md are in $out"
  ((failed == 0))
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
