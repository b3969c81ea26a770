#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# systemd 257.13, a service with TemporaryFileSystem=/:ro and ProtectControlGroups=yes.
# Expected: ExecReload=+ runs where ExecStart= does.
# Seen: the reload fails with 226/NAMESPACE. Either line alone works, and so does
#   ReadOnlyPaths=-/sys/fs/cgroup in place of the second.

. "${BASH_SOURCE[0]%/*}/lib.sh"
root trixie systemd=257.13-1~deb13u1 coreutils bash

unit() { # <name>, lines on standard input
  {
    printf '%s\n' '[Unit]' 'DefaultDependencies=no' '[Service]' 'Type=exec' 'ExecStart=/bin/sleep 100' 'ExecReload=+/bin/true'
    cat
  } >"$ROOT/units/$1.service"
}

mkdir -p "$ROOT/units" "$ROOT/sys"
root=$'TemporaryFileSystem=/:ro\nBindReadOnlyPaths=/usr /bin /lib /lib64'
unit both <<<"$root"$'\nProtectControlGroups=yes'
unit empty <<<"$root"
unit groups <<<ProtectControlGroups=yes
unit path <<<"$root"$'\nReadOnlyPaths=-/sys/fs/cgroup'
printf '%s\n' '[Unit]' 'DefaultDependencies=no' 'SuccessAction=poweroff-immediate' 'FailureAction=poweroff-immediate' '[Service]' \
  'Type=exec' 'ExecStart=/bin/bash /w/look' >"$ROOT/units/look.service"
cat >"$ROOT/w/look" <<'END'
for name in both empty groups path; do
  systemctl start "$name" && { systemctl reload "$name"; printf '%s ' "$?"; }
done >/w/said 2>/w/errors
END

# The first process of the namespaces, with a cgroup of its own.
boot() {
  local group=$1
  echo "$BASHPID" >"$group/cgroup.procs"
  # shellcheck disable=SC2016  # the inner shell expands it
  exec timeout -s KILL 60 unshare --mount --pid --uts --ipc --net --cgroup --fork --kill-child bash -euc '
    mount --bind "$ROOT" "$ROOT"; cd "$ROOT"
    mount -t proc proc proc; mount -t sysfs -o ro sysfs sys; mount -t cgroup2 cgroup2 sys/fs/cgroup
    mount --rbind /dev dev; mount -t tmpfs run run; mkdir run/old
    pivot_root . run/old; cd /; umount -l run/old
    exec env container=finding SYSTEMD_UNIT_PATH=/units SYSTEMD_GENERATOR_PATH=/none /usr/lib/systemd/systemd --unit=look.service --log-level=crit' \
    </dev/null >/dev/null 2>&1
}

group=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/finding-$$
mkdir "$group"
# shellcheck disable=SC2064  # the path of now
trap "find '$group' -depth -type d -exec rmdir {} +; $(trap -p EXIT | sed "s/^trap -- '//; s/' EXIT$//")" EXIT
(boot "$group") || true
read -r both empty groups path <<<"$(<"$ROOT/w/said")"
seen "status of systemctl reload: empty root $empty, ProtectControlGroups=yes $groups, both $both; ReadOnlyPaths=-/sys/fs/cgroup instead $path" \
  "both == 1 && empty == 0 && groups == 0 && path == 0"
