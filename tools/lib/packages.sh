# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What has to be installed, by role: how to see that it is there, and what the
# package is called in each family.  Nothing is asked of the package manager
# while nothing is missing.

packages_table() { # role, probe, Debian's and Ubuntu's names, Red Hat's names; two spaces between
  cat <<'END'
compiler    command:gcc             gcc libc6-dev             gcc
make        command:make            make                      make
autotools   command:autoreconf      autoconf automake         autoconf automake
libtool     command:libtoolize      libtool                   libtool
pkgconfig   command:pkg-config      pkg-config                pkgconf-pkg-config
apxs        command:apxs            apache2-dev               httpd-devel
httpd       command:apache2,httpd   apache2-bin               httpd
lua         file:/usr/lib*/*/modules/mod_lua.so  apache2-bin   mod_lua
mime        file:/etc/mime.types    media-types               mailcap
cgroup      pkgconfig:libcgroup     libcgroup-dev             libcgroup-devel
php         file:/usr/sbin/php-fpm*  php-fpm                  php-fpm
network     command:ip,ss           iproute2                  iproute
services    file:/etc/services        netbase                   setup
sysctl      command:sysctl          procps                    procps-ng
util        command:nsenter         util-linux                util-linux
curl        command:curl            curl                      curl
jq          command:jq              jq                        jq
sar         command:sar             sysstat                   sysstat
siege       command:siege           siege                     siege
wrk         command:wrk             wrk                       wrk
haproxy     command:haproxy         haproxy                   haproxy
mod_qos     file:/usr/lib*/*/modules/mod_qos.so  libapache2-mod-qos  mod_qos
ssh         command:ssh             openssh-client            openssh-clients
sshd        file:/usr/sbin/sshd     openssh-server            openssh-server
bats        command:bats            bats                      bats
prove       command:prove           perl                      perl-Test-Harness
shellcheck  command:shellcheck      shellcheck                ShellCheck
ab          command:ab              apache2-utils             httpd-tools
openssl     command:openssl         openssl                   openssl
openssl-dev  file:/usr/include/openssl/ssl.h  libssl-dev      openssl-devel
git         command:git             git                       git
h2load      command:h2load,nghttp          nghttp2-client            nghttp2
groff       command:groff           groff-base            groff-base
valgrind    command:valgrind        valgrind                  valgrind
clang       command:clang           clang libclang-rt-dev     clang compiler-rt
clang-tidy  command:clang-tidy      clang-tidy                clang-tools-extra
spin        command:spin            spin                      spin
qemu        command:qemu-system-x86_64  qemu-system-x86       qemu-kvm
systemd     file:/lib/systemd/systemd  systemd                systemd
cppcheck    command:cppcheck        cppcheck                  cppcheck
slowhttptest  command:slowhttptest  slowhttptest              slowhttptest
prometheus  command:prometheus,promtool  prometheus           prometheus
chromium    command:chromium        chromium                  chromium
rpm         command:rpmspec         rpm                       rpm-build
debhelper   command:dh,dpkg-buildpackage  debhelper dpkg-dev  debhelper dpkg-dev
lintian     command:lintian         lintian                   lintian
gnuplot     command:gnuplot         gnuplot-nox               gnuplot
bubblewrap  command:bwrap           bubblewrap                bubblewrap
lighttpd    command:lighttpd        lighttpd                  lighttpd
postgresql  file:/usr/lib/postgresql/*/bin/initdb,/usr/bin/initdb  postgresql  postgresql-server
phppgsql    php:pgsql               php-pgsql                 php-pgsql
mariadb     command:mariadb-install-db  mariadb-server        mariadb-server
phpmysql    php:mysqli              php-mysql                 php-mysqlnd
wordpress   file:/usr/share/wordpress/wp-load.php  wordpress wordpress-theme-twentytwentythree php  wordpress
mediawiki   file:/usr/share/mediawiki/index.php  mediawiki php php-intl php-mbstring php-xml  mediawiki
symfony     file:/usr/share/php/Symfony/Bundle/TwigBundle/TwigBundle.php  php-symfony-framework-bundle php-symfony-twig-bundle php-symfony-yaml  php-symfony
debootstrap  command:debootstrap     debootstrap               debootstrap
fonts       file:/usr/share/fonts/*/dejavu*  fonts-dejavu-core  dejavu-sans-fonts
END
}

packages_family() { # apt, dnf or nothing
  local id='' like=''
  # shellcheck disable=SC1091  # the machine's own
  id=$(. /etc/os-release 2>/dev/null && printf '%s %s' "${ID-}" "${ID_LIKE-}") || true
  for like in $id; do
    case $like in
      debian | ubuntu) echo apt; return ;;
      rhel | fedora | centos) echo dnf; return ;;
    esac
  done
}

packages_present() { # <probe>
  local want=${1#*:} name
  case $1 in
    command:apxs) command -v apxs >/dev/null || command -v apxs2 >/dev/null ;;
    command:apache2,httpd) command -v apache2 >/dev/null || command -v httpd >/dev/null ;;
    command:*) for name in ${want//,/ }; do command -v "$name" >/dev/null || return 1; done ;;
    php:*) for name in ${want//,/ }; do packages_php_has "$name" || return 1; done ;;
    file:*) for name in ${want//,/ }; do ! compgen -G "$name" >/dev/null || return 0; done; return 1 ;;
    pkgconfig:*) pkg-config --exists "$want" 2>/dev/null ;;
  esac
}

packages_php_has() { # <extension>
  local fpm
  fpm=$(compgen -G '/usr/sbin/php-fpm*' | sort -V | tail -n 1) || return 1
  [[ $'\n'$("$fpm" -m 2>/dev/null)$'\n' == *$'\n'"$1"$'\n'* ]]
}

packages_missing() { # <role>...: the roles that are
  local role probe rest
  while read -r role probe rest; do
    [[ " $* " != *" $role "* ]] || packages_present "$probe" || printf '%s\n' "$role"
  done < <(packages_table)
}

packages_names() { # <family> <role>...
  local family=$1
  shift
  packages_table | awk -F '  +' -v roles=" $* " -v column="$([[ $family == apt ]] && echo 3 || echo 4)" \
    'index(roles, " " $1 " ") { print $column }'
}

# Installs what the roles need and is not there; says which role stays missing.
packages_install() { # <role>...
  local missing family names
  mapfile -t missing < <(packages_missing "$@")
  ((${#missing[@]})) || return 0
  family=$(packages_family)
  [[ -n $family ]] || cannot "missing: ${missing[*]}; this distribution's package manager is unknown here"
  read -ra names < <(packages_names "$family" "${missing[@]}" | paste -sd' ' -)
  need_root
  say "installing ${names[*]}"
  "packages_$family" "${names[@]}" >&2 || true
  hash -r
  mapfile -t missing < <(packages_missing "$@")
  ((${#missing[@]} == 0)) || cannot "not installed and not installable from the distribution's packages: ${missing[*]}"
}

packages_apt() { # <package>...
  local enabled
  on_exit packages_policy_restore
  packages_policy_forbid
  export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
  enabled=$(packages_enabled)
  # a fresh machine installs its updates by itself at first: they may come to their end
  apt-get update -q && apt-get install -qy -o DPkg::Lock::Timeout=300 --no-install-recommends "$@"
  packages_disable "$enabled"
  packages_policy_restore
}

# Debian's modules for Apache enable themselves in the machine's own Apache.
packages_enabled() { compgen -G '/etc/apache2/mods-enabled/*.load' || true; }

packages_disable() { # <those that were enabled before>
  local file name
  for file in $(packages_enabled); do
    name=${file##*/}
    grep -qxF -- "$file" <<<"$1" || a2dismod -qf "${name%.load}"
  done
}

packages_dnf() { # <package>...: siege and bats are in EPEL on RHEL and its kin
  dnf install -qy epel-release || say "no EPEL repository here; going on without"
  dnf install -qy --setopt=install_weak_deps=False "$@"
}

# Debian starts the daemons it installs unless policy-rc.d says no.  One that
# is there already is put aside and comes back as it was.
packages_policy=/usr/sbin/policy-rc.d
packages_policy_aside=$packages_policy.vhostlimit-aside

packages_policy_forbid() {
  packages_policy_restore       # a killed run may have left ours
  [[ ! -e $packages_policy ]] || mv "$packages_policy" "$packages_policy_aside"
  printf '#!/bin/sh\n# made by mod_vhostlimit: no daemon starts while packages are installed\nexit 101\n' \
    >"$packages_policy"
  chmod 755 "$packages_policy"
}

packages_policy_restore() {
  ! grep -q 'made by mod_vhostlimit' "$packages_policy" 2>/dev/null || rm -f "$packages_policy"
  [[ ! -e $packages_policy_aside ]] || mv "$packages_policy_aside" "$packages_policy"
}
