#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: run a command on this machine's files under another kernel with cgroup v2
#          only (or v1), in a virtual machine
# Usage:   v2.sh [-i] [-k SUITE] [-c CGROUPS] [-s SECONDS] [COMMAND [ARGUMENT]...]
#          v2.sh -n [-s SECONDS] COMMAND [ARGUMENT]...
#   -i           systemd is the machine's first process, COMMAND a service (v2 only)
#   -n           as -i, but in namespaces of this machine, with its kernel and at full
#                speed. The cgroups have those controllers only that this machine does
#                not have in v1
#   -k SUITE     the kernel of this suite of Debian: bookworm, trixie or sid (default: that of
#                this machine's package source)
#   -c CGROUPS   v2, v1 (cpu and cpuacct in one hierarchy) or hybrid (v2)
#   -s SECONDS   time limit of each machine (900)
#   -h, --help   this help
#   --version    the version
#   COMMAND      runs as root in this folder; without one, the unit tests of cgroups and
#                the tests of t/4* tagged "v2", then, in a machine with systemd,
#                t/460-cgroup-systemd.bats. Files that it writes are lost.
#   A machine needs qemu-system-x86_64. It uses KVM if that starts a kernel, and is emulated
#   if not. The kernel and busybox are downloaded once to a folder of /var/cache/vhostlimit-v2
#   and are not installed.
# Exit:    the status of COMMAND; 2 usage; 77 cannot run: not root, qemu or systemd is
#          missing, a package cannot be downloaded, or with -n there are no namespaces or no
#          cgroup v2; 124 time limit reached

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/poll.sh"
. "$here/lib/cgroup.sh"
. "$here/lib/native.sh"
. "$here/lib/packages.sh"
. "$here/lib/pristine.sh"

work=
kvm=/dev/kvm
cache=/var/cache/vhostlimit-v2
# In the order of their dependencies.
modules=(virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk
  netfs fscache 9pnet 9pnet_virtio 9p overlay)

# The options of apt for the package source of another suite, an array in apt.
suite_apt() {
  apt=(-q -o APT::Sandbox::User=root)
  [[ $suite != machine ]] || return 0
  mkdir -p "$cache/lists/partial" "$cache/archives/partial"
  pristine_sources "$suite" >"$cache/sources.list"
  apt+=(-o "Dir::Etc::SourceList=$cache/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$cache/lists" -o "Dir::Cache=$cache")
}

# Since Linux 7.0 the package of the image is empty, and depends on those with the files.
download_kernel() {
  local image packages
  image=$(apt-cache "${apt[@]}" depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p')
  [[ -n $image ]] || return
  mapfile -t packages < <(apt-cache "${apt[@]}" depends "$image" | sed -nE 's/^ *Depends: (linux-(binary|modules)-.*)$/\1/p')
  (cd "$cache" && run apt-get "${apt[@]}" download "$image" "${packages[@]}" busybox-static) >&2
}

fetch_kernel() {
  local package apt
  cache+=/$suite
  [[ ! -e $cache/ready ]] || return 0
  command -v apt-get dpkg >/dev/null || cannot "apt-get and dpkg are needed to fetch the kernel and are not installed"
  mkdir -p "$cache/files"
  suite_apt
  download_kernel || { run apt-get "${apt[@]}" update >&2 && download_kernel; } ||
    cannot "apt-get could not download linux-image-amd64 and busybox-static; see above"
  for package in "$cache"/*.deb; do dpkg -x "$package" "$cache/files"; done
  rm -rf "$cache"/*.deb "$cache/lists"
  : >"$cache/ready"
}

make_initramfs() { # <directory> <script to run> <direct | systemd>
  local name
  mkdir -p "$1"/{bin,modules,proc,host,over,root}
  find "$cache/files" -name busybox -type f -perm /111 -exec cp {} "$1/bin/" \;
  for name in "${modules[@]}"; do
    find "$cache/files" \( -name "$name.ko" -o -name "$name.ko.xz" \) -exec cp {} "$1/modules/" \;
  done
  find "$1/modules" -name '*.xz' -exec xz -d {} +
  { init_script && "${3}_init" "$2"; } >"$1/init"
  chmod 755 "$1/init"
  (cd "$1" && find . | bin/busybox cpio -o -H newc 2>/dev/null) >"$1.cpio"
}

# The machine's root is this machine's, read through 9p, under an overlay in memory.
init_script() {
  cat <<END
#!/bin/busybox sh
export PATH=/bin:/usr/sbin:/usr/bin:/sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc
for name in ${modules[*]}; do
  [ ! -e /modules/\$name.ko ] || insmod /modules/\$name.ko
done
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose host /host
mount -t tmpfs over /over
mkdir /over/upper /over/work
mount -t overlay -o lowerdir=/host,upperdir=/over/upper,workdir=/over/work overlay /root
cd /root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t devtmpfs dev dev
mkdir -p dev/pts; mkdir -p -m 1777 dev/shm
ln -s /proc/self/fd dev/fd
mount -t tmpfs run run
ip link set lo up
END
}

# Not in a chroot, in which the kernel creates no user namespace.
direct_init() { # <script to run>
  echo 'umount /proc'
  echo "exec switch_root /root /bin/bash -c '/bin/bash $1; echo o >/proc/sysrq-trigger; while :; do :; done'"
}

systemd_init() { # <script to run>
  systemd_units "$1" StandardOutput=tty TTYPath=/dev/ttyS0
  echo 'umount /proc'
  echo "export $(systemd_settings)"
  echo "exec switch_root /root $(systemd_command)"
}

# Commands for the new machine, in its root.  systemd reads /run/systemd/system only, so that
# no service of this machine is started.
systemd_units() { # <script to run> <line of the service>...
  cat <<END
mkdir -p run/systemd/system
for name in sysinit basic; do echo '[Unit]' >run/systemd/system/\$name.target; done
cat >run/systemd/system/vhostlimit-v2.service <<UNIT
[Unit]
DefaultDependencies=no
SuccessAction=poweroff-immediate
FailureAction=poweroff-immediate
[Service]
Type=exec
ExecStart=/bin/bash $1
$(printf '%s\n' "${@:2}")
StandardError=inherit
LimitNOFILE=65536
UNIT
END
}

systemd_settings() { echo 'SYSTEMD_UNIT_PATH=/run/systemd/system SYSTEMD_GENERATOR_PATH=/run/systemd/none'; }
systemd_command()  { echo '/lib/systemd/systemd --unit=vhostlimit-v2.service --show-status=no --log-level=crit'; }

mount_cgroups() { # <v2 | v1 | hybrid>: commands for the new machine
  if [[ $1 == v2 ]]; then
    echo 'mount -t cgroup2 cgroup2 /sys/fs/cgroup'
    return
  fi
  echo 'mount -t tmpfs cgroup /sys/fs/cgroup'
  local name
  for name in cpu,cpuacct memory pids blkio; do
    echo "mkdir /sys/fs/cgroup/$name; mount -t cgroup -o $name cgroup /sys/fs/cgroup/$name"
  done
  [[ $1 == v1 ]] || echo 'mkdir /sys/fs/cgroup/unified; mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified'
}

guest_script() { # <direct | systemd | native> <cgroups> <command>...
  [[ $1 != direct ]] || mount_cgroups "$2"
  printf 'export PATH=%q LC_ALL=C TMPDIR=/tmp HOME=/root VL_GUEST=%q\n' "$PATH" "$1"
  echo 'mount -t tmpfs tmp /var/tmp'
  printf 'cd %q\n' "$PWD"
  printf '%q ' "${@:3}"
  printf '</dev/null\n%s\n' 'echo "v2-status: $?"'
}

emulator() { # <seconds> <kvm | tcg> <option>...
  timeout "$1" qemu-system-x86_64 -accel "$2" -display none -vga none -no-reboot -nodefaults -serial stdio \
    -kernel "$(find "$cache/files" -name 'vmlinuz*' | sed -n 1p)" "${@:3}" </dev/null
}

# Sets accel to kvm if the kernel says its first line there within five seconds. Inside of some virtual
# machines /dev/kvm is there, and runs nothing.
choose_accel() {
  accel=tcg
  [[ -w $kvm ]] || return 0
  [[ $(emulator 5 kvm -append 'console=ttyS0 panic=-1' 2>/dev/null | tr -d '\0') != *'Linux version'* ]] || accel=kvm
}

machine_boot() { # <work directory> <seconds>
  local accel
  choose_accel
  truncate -s 64M "$1/disk"
  emulator "$2" "$accel" -m 2048 -smp 2 -initrd "$1/initramfs.cpio" -append 'console=ttyS0 quiet panic=-1' \
    -drive "file=$1/disk,format=raw,if=virtio" \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap
}

# Prints what the command prints, and returns its status.
boot() { # <machine_boot | native_boot> <work directory> <seconds>
  local status=0 said
  "$@" | sed -u 's/\r//g' | tee "$2/said" | grep --line-buffered -vE '^v2-status: |^\[ *[0-9.]+\] (sysrq|reboot): Power' || status=${PIPESTATUS[0]}
  said=$(sed -n 's/^v2-status: //p' "$2/said")
  [[ -n $said ]] || ((status == 124 || status == 77)) || status=1
  return "${said:-$status}"
}

remove_work() {
  native_remove
  [[ -z $work ]] || rm -rf "$work"
}

run_guest() { # <direct | systemd | native> <command>...
  local status=0
  work=$(mktemp -d)
  guest_script "$1" "$cgroups" "${@:2}" >"$work/script"
  if [[ $1 == native ]]; then
    boot native_boot "$work" "$seconds" || status=$?
  else
    make_initramfs "$work/initramfs" "$work/script" "$1"
    boot machine_boot "$work" "$seconds" || status=$?
  fi
  remove_work
  return "$status"
}

# Runs both parts, even if the first one fails.
run_tests() {
  local status=0
  cd "$here/.."
  run_guest direct bash -c 't/unit/vl_cgroup.t && t/unit/vl_kills.t && bats --tap --filter-tags v2 t/4*.bats' || status=$?
  [[ $cgroups != v2 ]] || run_guest systemd bats --tap t/460-cgroup-systemd.bats || status=$?
  return "$status"
}

main() {
  local cgroups seconds init=direct suite
  parse_options +ink:c:s: '' "$@"
  set -- "${words[@]}"
  [[ ! -v given[-i] ]] || init=systemd
  [[ ! -v given[-n] ]] || init=native
  suite=${given[-k]-machine} cgroups=${given[-c]-v2} seconds=${given[-s]-900}
  [[ $suite =~ ^(machine|bookworm|trixie|sid)$ ]] || misuse "-k: '$suite' is not bookworm, trixie or sid"
  [[ $cgroups =~ ^(v2|v1|hybrid)$ ]] || misuse "-c: '$cgroups' is not v2, v1 or hybrid"
  [[ $seconds =~ ^[1-9][0-9]{0,4}$ ]] || misuse "-s: '$seconds' is not a whole number from 1 to 99999"
  [[ $init == direct || $cgroups == v2 ]] || misuse "-i and -n are valid with -c v2 only: systemd mounts the hierarchies"
  [[ $init != native || $# -gt 0 ]] || misuse "-n: missing command"
  need_root
  [[ $init == direct && $# -gt 0 || -x /lib/systemd/systemd ]] || cannot "systemd is not installed; install it and try again"
  if [[ $init == native ]]; then native_need; else need qemu-system-x86_64 && fetch_kernel; fi
  on_exit remove_work
  if (($#)); then run_guest "$init" "$@"; else run_tests; fi
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
