# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Packages by role: how to check that it is installed, and the package names of each
# family of distributions.  The package manager is called only if something is missing.

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
ssl         file:/usr/lib*/*/modules/mod_ssl.so  apache2-bin   mod_ssl
http2       file:/usr/lib*/*/modules/mod_http2.so  apache2-bin  mod_http2
suexec      file:/usr/lib/apache2/suexec,/usr/sbin/suexec  apache2-suexec-pristine  httpd-core
mpm_itk     file:/usr/lib*/*/modules/mpm_itk.so  libapache2-mpm-itk  httpd-itk
mime        file:/etc/mime.types    media-types               mailcap
cgroup      pkgconfig:libcgroup     libcgroup-dev             libcgroup-devel
seccomp     pkgconfig:libseccomp    libseccomp-dev            libseccomp-devel
jansson     pkgconfig:jansson       libjansson-dev            jansson-devel
expat       pkgconfig:expat         libexpat1-dev             expat-devel
hiredis     pkgconfig:hiredis       libhiredis-dev            hiredis-devel
redis       command:redis-server,redis-cli  redis-server redis-tools  redis
sentinel    command:redis-sentinel  redis-sentinel            redis
php         file:/usr/sbin/php-fpm*  php-fpm                  php-fpm
phpcli      command:php             php-cli                   php-cli
idn2        command:idn2            idn2                      idn2
network     command:ip,ss           iproute2                  iproute
services    file:/etc/services        netbase                   setup
sysctl      command:sysctl          procps                    procps-ng
pgrep       command:pgrep           procps                    procps-ng
util        command:nsenter,pivot_root  util-linux util-linux-extra  util-linux
script      command:script          bsdutils                  util-linux
curl        command:curl            curl                      curl
jq          command:jq              jq                        jq
sar         command:sar             sysstat                   sysstat
siege       command:siege           siege                     siege
wrk         command:wrk             wrk                       wrk
haproxy     command:haproxy         haproxy                   haproxy
nginx       command:nginx           nginx                     nginx
mod_qos     file:/usr/lib*/*/modules/mod_qos.so  libapache2-mod-qos  mod_qos
mod_wsgi    file:/usr/lib*/*/modules/mod_wsgi*.so  libapache2-mod-wsgi-py3  python3-mod_wsgi
mod_perl    file:/usr/lib*/*/modules/mod_perl.so  libapache2-mod-perl2  mod_perl
mod_fcgid   file:/usr/lib*/*/modules/mod_fcgid.so  libapache2-mod-fcgid  mod_fcgid
mod_jk      file:/usr/lib*/*/modules/mod_jk.so  libapache2-mod-jk  mod_jk
tomcat      file:/usr/share/tomcat*/bin/catalina.sh  tomcat10-common  tomcat
phpcgi      command:php-cgi         php-cgi                   php-cli
gunicorn    command:gunicorn        gunicorn                  python3-gunicorn
uwsgi       file:/usr/lib/uwsgi/plugins/python3*_plugin.so,/usr/lib64/uwsgi/python3*_plugin.so  uwsgi-core uwsgi-plugin-python3  uwsgi uwsgi-plugin-python3
passenger   file:/usr/lib*/*/modules/mod_passenger.so  libapache2-mod-passenger  mod_passenger
varnish     command:varnishd        varnish                   varnish
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
essential   file:/usr/share/build-essential/list  build-essential  gcc make
secilc      command:secilc          secilc policycoreutils    secilc policycoreutils
lintian     command:lintian         lintian                   lintian
mkdocs      command:mkdocs          mkdocs                    mkdocs
bubblewrap  command:bwrap           bubblewrap                bubblewrap
postgresql  file:/usr/lib/postgresql/*/bin/initdb,/usr/bin/initdb  postgresql  postgresql-server
mariadb     command:mariadb-install-db  mariadb-server        mariadb-server
phpmysql    php:mysqli              php-mysql                 php-mysqlnd
phppgsql    php:pgsql               php-pgsql                 php-pgsql
wordpress   file:/usr/share/wordpress/wp-load.php  wordpress wordpress-theme-twentytwentythree php  wordpress
debootstrap  command:debootstrap    debootstrap               debootstrap
fonts       file:/usr/share/fonts/*/dejavu*  fonts-dejavu-core  dejavu-sans-fonts
fontconfig  command:fc-match        fontconfig            fontconfig
msmtp       command:msmtp           msmtp-mta             msmtp
certificates  file:/etc/ssl/certs/ca-certificates.crt  ca-certificates  ca-certificates
END
}

# Words that tests use after "requires" and "# needs:" and that are not names of roles.  Any other
# word is a role, or mod_NAME.
packages_words() { # word, roles; "-" if no package is needed
  printf '%s -\n' built cgroups cpu dpkg_deb guest io landlock long memory mysql panel_sources pids root
  printf '%s httpd\n' event prefork worker
  printf 'mod_%s mod_%s\n' fcgid{,} jk{,} perl{,} qos{,} wsgi{,}
  printf 'mod_%s %s\n' http2{,} lua{,} passenger{,} ssl{,}
  cat <<'END'
bed             httpd php mime network sysctl sar jq
cc              compiler
clang_tidy      clang-tidy
ctl             jansson expat
curl_http2      curl
dpkg            debhelper apxs essential cgroup expat hiredis jansson openssl-dev seccomp
fleet           jansson hiredis openssl-dev
fuzzer          clang
git_http        git
git_program     git
machine         util network
mod_suexec      httpd suexec
netns           network
nghttp          h2load
nm              compiler
php_fpm         php
promtool        prometheus
rpmspec         rpm
setpriv         util
sshd            ssh sshd
systemd_analyze  systemd
time_namespace  util
userns          util
END
}

# The roles that test files need: their words after "requires", and the words of lines
# "# needs: WORD..." in them and in those parts of t/lib that they load.
packages_of_tests() { # <file>...
  local file
  for file; do
    printf '%s\n' "$file"
    sed -n "s,^load \\(lib/[a-z]*\\)\$,${file%/*}/\\1.bash,p" "$file"
  done | sort -u | xargs -r sed -nE -e 's/^# needs: //p' -e 's/^[^#"]*\brequires +([a-z][a-z_0-9 ]*).*/\1/p' | tr -s ' ' '\n' |
    awk 'NR == FNR { word = $1; $1 = ""; roles[word] = $0; next }
      { $0 = $1 in roles ? roles[$1] : $1 ~ /^mod_/ ? "httpd" : $1 }
      { for (i = 1; i <= NF; i++) if ($i != "-") print $i }' <(packages_words) - | sort -u
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

packages_missing() { # <role>...: those that are, and those that the table does not have
  local role probe rest
  local -A probes=()
  while read -r role probe rest; do probes[$role]=$probe; done < <(packages_table)
  for role; do [[ -v probes[$role] ]] && packages_present "${probes[$role]}" || printf '%s\n' "$role"; done
}

packages_names() { # <family> <role>...
  local family=$1
  shift
  packages_table | awk -F '  +' -v roles=" $* " -v column="$([[ $family == apt ]] && echo 3 || echo 4)" \
    'index(roles, " " $1 " ") { print $column }'
}

# Installs the missing packages of the roles.  Ends the program if a role stays missing.
packages_install() { # <role>...
  local missing family
  mapfile -t missing < <(packages_missing "$@")
  ((${#missing[@]})) || return 0
  family=$(packages_family)
  [[ -n $family ]] || cannot "missing: ${missing[*]}; install them by hand: neither apt-get nor dnf is installed"
  need_root
  packages_fetch "$family" "${missing[@]}"
  mapfile -t missing < <(packages_missing "$@")
  ((${#missing[@]} == 0)) || cannot "not installed and not installable from the distribution's packages: ${missing[*]}"
}

# The same, but prints the roles that stay missing instead.
packages_try() { # <role>...
  local missing family role
  mapfile -t missing < <(packages_missing "$@")
  family=$(packages_family)
  if ((${#missing[@]} && EUID == 0)) && [[ -n $family ]]; then
    packages_fetch "$family" "${missing[@]}"
    mapfile -t missing < <(packages_missing "$@")
    # A package that does not exist must not prevent the others.
    ((${#missing[@]} < 2)) || for role in "${missing[@]}"; do packages_fetch "$family" "$role"; done
  fi
  packages_missing "${missing[@]}"
}

packages_fetch() { # <family> <role>...
  local names
  read -ra names < <(packages_names "$@" | paste -sd' ' -)
  say "installing ${names[*]}"
  "packages_$1" "${names[@]}" >&2 </dev/null || true
  hash -r
}

# apt-get runs in a process group of its own: when this program ends early, even by
# SIGKILL, that group completes the installation and removes the policy. A signal
# that ends this program stops apt-get where apt-get can stop.
packages_apt() { # <package>...
  local rc=0
  on_exit packages_apt_stop
  set -m
  packages_apt_alone "$@" &
  packages_worker=$!
  set +m
  wait "$packages_worker" || rc=$?
  packages_worker=
  return "$rc"
}

packages_worker=

packages_apt_stop() {
  [[ -n $packages_worker ]] && kill -TERM "$packages_worker" 2>/dev/null || return 0
  say "waiting until apt-get has stopped"
  wait "$packages_worker" || true
}

packages_apt_alone() { # <package>...
  local before rc=0 apt='' stopped=''
  trap - EXIT
  trap 'stopped=yes; [[ -z $apt ]] || kill -INT "$apt" 2>/dev/null' INT TERM HUP
  export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 VL_INSTALLS=yes
  before=$(packages_enabled)
  packages_policy_set
  packages_apt_get update -q || say "apt-get update failed; the package lists stay as they were"
  # A fresh machine may be installing updates; wait for them for up to five minutes.
  packages_apt_get install -qy -o DPkg::Lock::Timeout=300 --no-install-recommends "$@" || rc=$?
  packages_disable "$before"
  packages_policy_remove
  return "$rc"
}

packages_apt_get() { # <argument>...
  local rc=0
  [[ -z $stopped ]] || return 1
  "${packages_inside[@]}" env --default-signal=INT apt-get "$@" &
  apt=$!
  # A trap ends wait, but not apt-get.
  until wait "$apt"; do
    rc=$?
    kill -0 "$apt" 2>/dev/null || return "$rc"
  done
}

packages_dnf() { # <package>...: siege and bats are in EPEL on RHEL and its kin
  dnf install -qy epel-release || say "the EPEL repository could not be added; continuing without it"
  dnf install -qy --setopt=install_weak_deps=False "$@"
}

# Debian starts a daemon when it is installed, unless /usr/sbin/policy-rc.d forbids it.
# The policy written here forbids it only to processes with VL_INSTALLS in their
# environment, which are the child processes of packages_apt. A policy left behind by a
# crash therefore does no harm, and it removes itself. If the machine has a policy of its
# own, that is covered in a mount namespace of apt-get, and never changed.
packages_policy=/usr/sbin/policy-rc.d
packages_policy_cover=
packages_inside=()

packages_policy_set() {
  local text
  text="#!/bin/sh
# made by mod_vhostlimit: no daemon starts while process $BASHPID installs packages
[ -z \"\$VL_INSTALLS\" ] || exit 101
kill -0 $BASHPID 2>/dev/null || rm -f $packages_policy
exit 0"
  packages_policy_remove                # left behind by a killed run
  if [[ ! -e $packages_policy ]]; then
    printf '%s\n' "$text" >"$packages_policy"
    chmod 755 "$packages_policy"
  elif packages_policy_cover=$(mktemp /var/lib/policy-rc.d.XXXXXX) && printf '%s\n' "$text" >"$packages_policy_cover" &&
    chmod 755 "$packages_policy_cover" &&
    unshare --mount --propagation private mount --bind "$packages_policy_cover" "$packages_policy" 2>/dev/null; then
    # shellcheck disable=SC2016  # for the shell there
    packages_inside=(unshare --mount --propagation private
      sh -c 'mount --bind "$1" "$2" && shift 2 && exec "$@"' - "$packages_policy_cover" "$packages_policy")
  else
    say "$packages_policy of this machine decides which daemons apt-get starts"
  fi
}

packages_policy_remove() {
  [[ -z $packages_policy_cover ]] || rm -f "$packages_policy_cover"
  ! grep -qs 'made by mod_vhostlimit' "$packages_policy" || rm -f "$packages_policy"
}

# Prints the links of services that start at the next boot, and of enabled modules of
# Debian's Apache: packages of modules enable them on installation.
packages_enabled() {
  { # not every machine has all of these folders
    find /etc/systemd/system /etc/rc[2-5S].d /etc/apache2/mods-enabled -type l \
      \( -path '*.wants/*' -o -path '*.requires/*' -o -name 'S[0-9][0-9]*' -o -name '*.load' \) 2>/dev/null || true
  } | sort
}

# Disables what is enabled now and was not before, except services of systemd itself.
packages_disable() { # <links that were there before>
  local link name
  while read -r link; do
    name=${link##*/}
    case $link in
      */mods-enabled/*) a2dismod -qf "${name%.load}" ;;
      */rc?.d/*) [[ ! -e $link ]] || update-rc.d "${name#S[0-9][0-9]}" disable ;;
      *)
        [[ $(dpkg -S "$(readlink -f "$link")" 2>/dev/null) != systemd:* ]] || continue
        if command -v systemctl >/dev/null; then systemctl --quiet disable "$name"; else deb-systemd-helper disable "$name"; fi
        ;;
    esac
  done < <(comm -13 <(printf '%s\n' "$1") <(packages_enabled)) || true
}
