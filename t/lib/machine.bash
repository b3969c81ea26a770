# SPDX-License-Identifier: Apache-2.0
# needs: machine
#
# A copy of this machine: its root under an overlay, with processes, network and /run of
# its own. What is installed and started there is gone with it.

need_machine() {
  need_root || return
  unshare --mount --pid --net --fork true 2>/dev/null || { echo "no namespaces"; return 1; }
  grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || { echo "no overlay file system"; return 1; }
}

# The first process of the machine; ends with the test, or after machine_seconds (five minutes).
machine_main() {
  local dir=$machine_folder root=$machine_folder/root
  mount -t tmpfs tmpfs "$dir"
  mkdir "$dir/upper" "$dir/work" "$root"
  mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/run"
  mkdir "$root/run/lock"
  cat /etc/resolv.conf >"$root/etc/resolv.conf" || :
  rm -f "$root/usr/sbin/policy-rc.d"
  ip link set lo up
  mkdir "$root/run/old"
  cd "$root" || exit
  pivot_root . run/old
  umount -l /run/old
  touch /run/up
  sleep "${machine_seconds:-300}" &
  wait                # as the first process it also reaps the others
}

start_machine() {
  export machine_folder=$BATS_FILE_TMPDIR/machine
  mkdir -p "$machine_folder"
  export -f machine_main
  detached unshare --mount --propagation private --pid --net --fork --kill-child \
    bash -euc machine_main >"$machine_folder.log" 2>&1 &
  machine_holder=$!
  wait_until 10 machine_is_up || { cat "$machine_folder.log"; return 1; }
}

machine_is_up() {
  machine_pid=$(xargs <"/proc/$machine_holder/task/$machine_holder/children") &&
    [[ -n $machine_pid && -e /proc/$machine_pid/root/run/up ]]
}

stop_machine() {
  [[ -n ${machine_holder:-} ]] || return 0
  kill -KILL "$machine_pid" 2>/dev/null || kill -KILL "$machine_holder" 2>/dev/null || :
  wait "$machine_holder" 2>/dev/null || :
}

# Runs a command there, with its own network or, for packages, with the outer one.
on_machine()   { machine_enter --net "$@"; }  # <command>...
# isolate.sh keeps the outer network namespace in /run/vl-outer-net.
with_network() { # <command>...
  local outer=/run/vl-outer-net
  if [[ -e $outer ]]; then machine_enter --net="$outer" "$@"; else machine_enter "$@"; fi
}

machine_enter() { # [option of nsenter] <command>...
  local option=()
  [[ $1 != --net* ]] || { option=("$1"); shift; }
  timeout 120 nsenter --target "$machine_pid" --mount --pid "${option[@]}" \
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@" </dev/null 3>&- 4>&-
}

# Writes standard input into a file there.
put_on_machine() { # <path>
  nsenter --target "$machine_pid" --mount --pid tee "$1" >/dev/null
}
