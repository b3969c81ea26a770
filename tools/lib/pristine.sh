# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Pristine Debian roots: make one, run commands in it, remove it.
#
# A pristine root is a folder with what debootstrap --variant=minbase installs and
# nothing else. From the machine it gets the package source only: mirror, archive keys,
# apt's Acquire options and proxies, and the local CA certificates if the mirror uses
# https. A command in it has mount, process, IPC and host name
# namespaces of its own, a private /run, /tmp and /dev/shm, the machine's devices
# and cgroups, and the machine's network.
#
# Nothing is mounted outside of that mount namespace, and every process in it ends
# with the process that called pristine_run, also after kill -9. Then only the
# folder is left. Its lock is free, and the next pristine_make removes it.

pristine_cache=${VL_PRISTINE_CACHE:-/var/cache/vhostlimit-pristine}     # base systems and packages
pristine_roots=${VL_PRISTINE_ROOTS:-/var/tmp/vhostlimit-pristine}       # one folder for each root

# The URI of Debian's archive, or of its security updates, that apt uses here.
# Its pool is the same for all suites, so one mirror serves each of them.
pristine_uri() { # main|security
  local uri
  # shellcheck disable=SC2016  # apt's own placeholders
  uri=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' |
    awk -v kind="$1" '$3 == "main" && ($4 == "Debian" || $1 ~ /debian/) && !found &&
      ($2 ~ /-security$/) == (kind == "security") { found = 1; sub("/$", "", $1); print $1 }')
  [[ -n $uri || $1 == security ]] ||
    cannot "apt has no package source of Debian, so no root can be made; add one (sources.list(5))"
  printf '%s\n' "$uri"
}

pristine_need() {
  local program
  need_root
  [[ $(packages_family) == apt ]] ||
    cannot "a pristine Debian root needs a Debian or Ubuntu machine: the package source is taken from apt"
  for program in flock tar unshare setpriv pivot_root; do need "$program"; done
  unshare --mount --pid --ipc --uts --fork true 2>/dev/null ||
    cannot "this machine does not let root make mount and process namespaces (in a container: start it with --privileged)"
}

# Sets pristine_base to the tarball of today's base system; makes it if it is missing.
pristine_make_base() { # <suite>
  local suite=$1 new keyring=/usr/share/keyrings/debian-archive-keyring.gpg lock
  pristine_base=$pristine_cache/$suite-$(dpkg --print-architecture)-$(date -u +%Y%m%d).tar
  mkdir -p "$pristine_cache/debs/$suite"
  exec {lock}>"$pristine_cache/$suite.lock"
  flock "$lock"
  if [[ ! -e $pristine_base ]]; then
    packages_install debootstrap
    [[ -e $keyring ]] || cannot "$keyring is missing: install debian-archive-keyring"
    new=$(mktemp -d "$pristine_cache/new.XXXXXX")
    say "creating the base system of Debian $suite with debootstrap"
    if ! debootstrap --variant=minbase --keyring="$keyring" --cache-dir="$pristine_cache/debs/$suite" \
      "$suite" "$new/root" "$(pristine_uri main)" >"$new/log" 2>&1 </dev/null {lock}>&-; then
      tail -n 20 "$new/log" >&2
      [[ ! -e $new/root/debootstrap/debootstrap.log ]] || tail -n 20 "$new/root/debootstrap/debootstrap.log" >&2
      rm -rf --one-file-system "$new"
      die "debootstrap could not make Debian $suite from $(pristine_uri main); see above. Does the mirror have this suite?"
    fi
    rm -f "$new"/root/var/cache/apt/archives/*.deb
    tar --create --numeric-owner --xattrs --directory "$new/root" --file "$new/tar" .
    rm -f "$pristine_cache/$suite-"*.tar
    mv "$new/tar" "$pristine_base"
    rm -rf --one-file-system "$new"
  fi
  exec {lock}>&-
}

# The lines of sources.list for a suite from the same mirror.
pristine_sources() { # <suite>
  local main security
  main=$(pristine_uri main)
  security=$(pristine_uri security)
  echo "deb $main $1 main"
  case $1 in
    sid | unstable | testing | experimental) ;;
    *)
      echo "deb $main $1-updates main"
      [[ -z $security ]] || echo "deb $security $1-security main"
      ;;
  esac
}

# apt's configuration in the root: the suite from the same mirror, through the same proxy.
pristine_configure_apt() { # <root> <suite>
  local root=$1
  pristine_sources "$2" >"$root/etc/apt/sources.list"
  apt-config dump | grep -E '^Acquire::(http|https|Retries|Check-)' >"$root/etc/apt/apt.conf.d/00machine" || true
  # the folder is temporary: waiting for the disk has no use
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/pristine"
  if grep -q https: "$root/etc/apt/sources.list"; then
    mkdir -p "$root/usr/local/share/ca-certificates" "$root/etc/ssl/certs"
    cp -R /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  fi
}

# Makes a root and sets pristine_root to its folder, which is locked until this process ends.
pristine_make() { # <suite>
  local suite=$1 folder
  mkdir -p "$pristine_roots"
  chmod 700 "$pristine_roots"
  pristine_clean
  pristine_make_base "$suite"
  folder=$(mktemp -d "$pristine_roots/$suite.XXXXXX")
  exec {pristine_lock}>"$folder/lock"
  flock "$pristine_lock"
  pristine_root=$folder/root
  mkdir "$pristine_root"
  tar --extract --numeric-owner --xattrs --directory "$pristine_root" --file "$pristine_base"
  echo "$suite" >"$folder/suite"
  pristine_configure_apt "$pristine_root" "$suite"
  cat /etc/resolv.conf >"$pristine_root/etc/resolv.conf"
  echo pristine >"$pristine_root/etc/hostname"
  printf '127.0.0.1 localhost pristine\n::1 localhost\n' >"$pristine_root/etc/hosts"
  # hard links where the file system allows them: apt removes its name, not the file
  cp -l "$pristine_cache/debs/$suite"/*.deb "$pristine_root/var/cache/apt/archives/" 2>/dev/null ||
    cp "$pristine_cache/debs/$suite"/*.deb "$pristine_root/var/cache/apt/archives/" 2>/dev/null || true
}

# Opens a root that an earlier run has kept.
pristine_reopen() { # <folder of a root>
  local folder
  folder=$(cd -- "$1" 2>/dev/null && pwd) || misuse "$1 is not a folder"
  [[ -e $folder/lock && -d $folder/root ]] || misuse "$1 is not a root kept by --keep: its lock or its root is missing"
  exec {pristine_lock}>>"$folder/lock"
  flock -n "$pristine_lock" || die "$1 is in use by another run"
  pristine_root=$folder/root
}

pristine_keep() { : >"${pristine_root%/root}/kept"; }

# Removes the root, and keeps the packages that were downloaded in it.
pristine_remove() {
  local folder=${pristine_root%/root} suite file
  [[ -n ${pristine_root-} ]] || return 0
  suite=$(cat "$folder/suite" 2>/dev/null) || suite=
  if [[ -n $suite && -d $pristine_cache/debs/$suite ]]; then
    for file in "$pristine_root"/var/cache/apt/archives/*.deb; do
      [[ ! -e $file || -e $pristine_cache/debs/$suite/${file##*/} ]] ||
        ln "$file" "$pristine_cache/debs/$suite/" 2>/dev/null || cp "$file" "$pristine_cache/debs/$suite/" || true
    done
    # a package that no run has used for two weeks has a newer version
    find "$pristine_cache/debs/$suite" -name '*.deb' -ctime +14 -delete
  fi
  rm -rf --one-file-system "$folder"
  exec {pristine_lock}>&-
  pristine_root=
}

# Removes roots left behind by killed runs: roots with a free lock that are not kept.
pristine_clean() {
  local folder lock
  for folder in "$pristine_roots"/*/; do
    [[ -d $folder && ! -e $folder/kept ]] || continue
    [[ -e $folder/lock ]] || { rmdir "$folder" 2>/dev/null || true; continue; }
    exec {lock}<"$folder/lock"
    if flock -n "$lock"; then
      say "removing $folder, left behind by a killed run"
      rm -rf --one-file-system "${folder%/}"
    fi
    exec {lock}<&-
  done
}

# Runs a command in the root, in its folder <folder>; returns the command's status.
# TERM and HUP end the command and everything it started at once. INT is left to the command,
# and sets pristine_interrupted.
pristine_run() { # <folder in the root> <command>...
  local status=0 variable environment=()
  for variable in TERM CI http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY "${!VL_@}"; do
    [[ -z ${!variable-} || $variable == VL_PRISTINE_* ]] || environment+=("$variable=${!variable}")
  done
  # setpriv and --kill-child: the namespaces do not outlive this process, however it ends
  setpriv --pdeathsig KILL -- unshare --mount --propagation private --pid --ipc --uts --fork --kill-child -- \
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "${environment[@]}" \
    bash -euc "$(declare -f pristine_init)"'; pristine_init "$@"' pristine "$pristine_root" "$@" <&0 &
  pristine_child=$!
  trap pristine_interrupted=yes INT
  trap pristine_kill TERM HUP
  while :; do
    { wait "$pristine_child" && status=0 || status=$?; } 2>/dev/null     # bash reports who was killed
    kill -0 "$pristine_child" 2>/dev/null || break
  done
  pristine_child=
  trap 'exit 130' INT         # as on_exit has set them
  exit_at 143 TERM HUP
  [[ -z ${pristine_killed-} ]] || exit 143
  return "$status"
}

pristine_kill() {
  pristine_killed=yes
  kill -KILL "$pristine_child" 2>/dev/null || true
}

# The first process of the new namespaces.
pristine_init() { # <root> <folder> <command>...
  local root=$1 folder=$2 status=0 fd
  shift 2
  trap : INT TERM HUP
  hostname pristine
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  mount -t tmpfs -o mode=755 tmpfs "$root/run"
  mkdir -m 1777 "$root/run/lock"
  mkdir "$root/run/old"
  cd "$root" || exit
  pivot_root . run/old
  cd / || exit
  umount -l /run/old
  rmdir /run/old
  hash -r
  cd "$folder" || exit
  # descriptors of files outside, and the lock, which the parent process holds
  for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    ((fd <= 2)) || exec {fd}>&-
  done
  # bash starts background processes with INT ignored; a command started by hand has it
  env --default-signal=INT,QUIT "$@" || status=$?
  exit "$status"
}
