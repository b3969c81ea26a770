# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# systemd as the first process of namespaces of this machine, for v2.sh -n.

native_group=                   # the cgroup that is the root for systemd

native_need() { # sets native_group
  unshare --mount --pid --uts --ipc --net --cgroup --fork true 2>/dev/null ||
    cannot "this machine does not let root make namespaces (in a container: start it with --privileged)"
  grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || cannot "the kernel has no overlay file system"
  [[ -n $(cgroup_roots cgroup2) ]] || cannot "no cgroup v2 hierarchy is mounted"
  native_group=/vhostlimit-v2-${VL_TEST_ID:-own}-$$
}

# The script of the first process.  The root is this machine's, under an overlay in memory.
# The FIFO of the output is mounted, because a FIFO in an overlay is another one.
native_init() { # <work directory>
  cat <<END
mount -t tmpfs over $1/over
mkdir $1/over/upper $1/over/work
mount -t overlay -o lowerdir=/,upperdir=$1/over/upper,workdir=$1/over/work overlay $1/root
cd $1/root
[[ -e .$1/script && -d .$PWD ]] || { echo '$1 or $PWD is not on the file system of /'; exit 77; }
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 dev dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
mount -t tmpfs -o mode=1777 shm dev/shm
ln -s pts/ptmx dev/ptmx
for name in null zero full random urandom tty; do
  : >dev/\$name
  mount --bind /dev/\$name dev/\$name
done
ln -s /proc/self/fd dev/fd
for name in stdin:0 stdout:1 stderr:2; do ln -s /proc/self/fd/\${name#*:} dev/\${name%:*}; done
mount -t tmpfs -o mode=755 run run
mkdir run/old run/lock
: >run/said
mount --bind $1/output run/said
ip link set lo up
$(systemd_units "$1/script" StandardOutput=file:/run/said)
pivot_root . run/old
cd /
umount -l /run/old
exec env container=vhostlimit $(systemd_settings) $(systemd_command) </dev/null
END
}

# Prints what the service prints.  Returns the status of the namespaces: 124 after the time
# limit, 77 if they cannot be set up.  systemd ends them with a signal.
native_boot() { # <work directory> <seconds>
  local status=0 root output reader
  root=$(cgroup_roots cgroup2 | tail -n 1)
  mkdir "$root$native_group" "$1/over" "$1/root"
  mkfifo "$1/output"
  native_init "$1" >"$1/init"
  exec {output}<>"$1/output"    # from now on neither side waits for the other one
  cat "$1/output" {output}>&- &
  reader=$!
  native_run "$@" >"$1/output" 2>&1 </dev/null {output}>&- &
  native_pid=$!
  trap 'kill -KILL "$native_pid"' INT TERM HUP
  { wait "$native_pid" || status=$?; } 2>/dev/null        # bash reports who was killed
  exec {output}>&-
  wait "$reader"
  ((status != 137)) || status=124
  return "$status"
}

# Replaces the shell.  unshare blocks SIGTERM; its own end is the end of all of them.
native_run() { # <work directory> <seconds>
  cgroup_enter "$native_group"
  exec timeout -s KILL "$2" setpriv --pdeathsig KILL -- \
    unshare --mount --propagation private --pid --uts --ipc --net --cgroup --fork --kill-child bash -eu "$1/init"
}

native_remove() {
  [[ -z $native_group ]] || poll_until 10 cgroup_remove "$native_group" ||
    say "cgroup $native_group could not be removed: a process is still in it"
  native_group=
}
