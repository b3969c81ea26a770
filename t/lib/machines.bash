# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# needs: netns sshd
# Machines for bench.sh --clients: network namespaces vlt-server and vlt-host1 to
# vlt-host3, joined by veth pairs, each host with an sshd, a hosts file and a /run of its
# own.  On vlt-server their names for ssh are one, two and three.  Machine one has no
# siege and no h2load until apt-get installs them; the clock of three is 7 s ahead.

# shellcheck source-path=SCRIPTDIR source=../../tools/lib/netns.sh
. "$TOP/tools/lib/netns.sh"
# shellcheck source-path=SCRIPTDIR source=../../tools/lib/process.sh
. "$TOP/tools/lib/process.sh"

MACHINES=(one two three)

machines_up() {
  local n
  MACHINES_DIR=$BATS_FILE_TMPDIR/machines
  mkdir -p "$MACHINES_DIR/ssh"
  ssh-keygen -q -t ed25519 -N '' -f "$MACHINES_DIR/ssh/key"
  mkdir -p "$MACHINES_DIR"/host{1,2,3}/bin
  machine_tools
  netns_make vlt-server
  for n in 1 2 3; do machine_up "$n"; done
  chmod -R go= "$MACHINES_DIR"
  wait_until 10 machines_listen
  machines_home
  export MACHINES_DIR MACHINES_HOME
  [[ -e $MACHINES_HOME/.ssh ]] || { mkdir "$MACHINES_HOME/.ssh"; : >"$MACHINES_DIR/made-ssh"; }
}

# ssh takes the user's home from the password file and ignores HOME.  If isolate.sh has
# given this test file an /etc of its own, the user gets a home of its own too.
machines_home() {
  MACHINES_HOME=$(getent passwd "$(id -u)" | cut -d : -f 6)
  if grep -q ' /etc overlay ' /proc/self/mounts; then
    mkdir "$MACHINES_DIR/home"
    sed -i "s,^\([^:]*:[^:]*:$(id -u):.*:\)$MACHINES_HOME:,\1$MACHINES_DIR/home:," /etc/passwd
    MACHINES_HOME=$MACHINES_DIR/home
  fi
}

machine_up() { # <number>
  local name=vlt-host$1 address=198.18.9.1$1 dir=$MACHINES_DIR/host$1 path=$MACHINES_DIR/host$1/bin
  netns_make "$name"
  netns_join vlt-server 198.18.9.1 "$name" "$address"
  netns_hosts "$name" "127.0.0.1 localhost"
  printf '# of host %s, without an end of line' "$1" >>"/etc/netns/$name/hosts"
  cp "/etc/netns/$name/hosts" "$dir/hosts"
  ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
  [[ $1 == 1 ]] || path+=:/usr/sbin:/usr/bin:/sbin:/bin
  printf '%s\n' "SetEnv PATH=$path" "Port 220$1" "ListenAddress $address" "HostKey $dir/key" 'PidFile none' 'UsePAM no' \
    "AuthorizedKeysFile $MACHINES_DIR/ssh/key.pub" 'StrictModes no' 'PermitRootLogin prohibit-password' >"$dir/sshd_config"
  printf '%s\n' "Host ${MACHINES[$1 - 1]}" "  HostName $address" "  Port 220$1" '  User root' \
    "  IdentityFile ~/.ssh/key" "  UserKnownHostsFile ~/.ssh/known_hosts" >>"$MACHINES_DIR/ssh/config"
  printf '[%s]:220%s %s\n' "$address" "$1" "$(cut -d ' ' -f 1,2 "$dir/key.pub")" >>"$MACHINES_DIR/ssh/known_hosts"
  machine_boot "$1"
}

machine_boot() { # <number>: its sshd, and a /run of its own as Debian has it
  # shellcheck disable=SC2016  # for the shell there
  ip netns exec "vlt-host$1" bash -c 'mount -t tmpfs -o noexec tmpfs /run && mkdir /run/sshd || exit
    exec /usr/sbin/sshd -D -e -f "$1/sshd_config"' - "$MACHINES_DIR/host$1" >>"$MACHINES_DIR/host$1/log" 2>&1 3>&- &
}

machine_tools() {
  local dir=$MACHINES_DIR/host1
  ln -s /usr/bin/* /usr/sbin/* "$dir/bin" 2>/dev/null || true   # some names are in both
  mkdir "$dir/siege" "$dir/nghttp2-client"
  mv "$dir/bin/siege" "$dir/siege"
  mv "$dir/bin/h2load" "$dir/nghttp2-client" 2>/dev/null || true
  rm -f "$dir/bin/apt-get"
  # shellcheck disable=SC2016  # for the shell there
  printf '#!/bin/sh\n[ "$1" != install ] || for name; do mv %q/"$name"/* %q/bin/; done 2>/dev/null\n' "$dir" "$dir" >"$dir/bin/apt-get"
  chmod +x "$dir/bin/apt-get"
  dir=$MACHINES_DIR/host3
  # A siege that stops itself, except in the warm-up.
  printf '#!/bin/sh\ncase "$*" in *-t3S*) kill -STOP $$ ;; *) exec %q "$@" ;; esac\n' "$(command -v siege)" >"$MACHINES_DIR/hangs"
  chmod +x "$MACHINES_DIR/hangs"
  # A siege that could not start its users in time, once.
  printf '#!/bin/sh\ncase "$*" in *-t3S*) if mkdir %q; then echo Unable to spawn >&2; exit 1; fi ;; esac\nexec %q "$@"\n' \
    "$MACHINES_DIR/late.was" "$(command -v siege)" >"$MACHINES_DIR/late"
  chmod +x "$MACHINES_DIR/late"
  printf '#!/bin/sh\nexec %q -d "7 seconds" "$@"\n' "$(command -v date)" >"$dir/bin/date"
  chmod +x "$dir/bin/date"
}

machines_listen() {
  local n
  for n in 1 2 3; do
    [[ -n $(nsenter --net="/run/netns/vlt-host$n" ss -Hltn "sport = :220$n") ]] || return 1
  done
}

machine_off() { # <number>: everything that runs on it, at once
  local pids
  mapfile -t pids < <(ip netns pids "vlt-host$1")
  # All are stopped first, so that none of them reacts to the end of another.
  kill -STOP "${pids[@]}" 2>/dev/null || true
  kill -KILL "${pids[@]}" 2>/dev/null || true
}

machines_down() {
  local n
  for n in 1 2 3; do machine_off "$n"; done
  netns_remove vlt-host{1,2,3} vlt-server
  [[ ! -e $MACHINES_DIR/made-ssh ]] || rmdir "$MACHINES_HOME/.ssh"
  rm -rf "$MACHINES_DIR"
}

# On vlt-server, with its own ~/.ssh.
on_server() { # <command>...
  # shellcheck disable=SC2016  # for the shell there
  exec env -u SUDO_USER nsenter --net=/run/netns/vlt-server unshare -m bash -c '
    mount --bind "$1" "$2" && exec "${@:3}"' - "$MACHINES_DIR/ssh" "$MACHINES_HOME/.ssh" "$@"
}

on_client() { # <number of a client> <command>...
  ip netns exec "vlt-host$1" "${@:2}"
}

# Fails unless the hosts files are restored and no folder is left.  Processes of a load
# end when sshd sees that its connection has ended.
machines_clean() {
  local n
  for n in 1 2 3; do
    cmp "/etc/netns/vlt-host$n/hosts" "$MACHINES_DIR/host$n/hosts" || fail "machine $n has another hosts file"
    poll_until $((10 * SLOWER)) machine_idle "$n" ||
      fail "left on machine $n: $(machine_ours "$n" | xargs ps -o pid=,etimes=,args= -p)"
    ! machine_keeps "$n" || fail "our folder is left on machine $n"
  done
}

machine_ours() { machine_runs "$1" 'siege\|bash -s\|vhostlimit-client'; }    # <number>
machine_idle() { [[ -z $(machine_ours "$1") ]]; }                           # <number>

machine_keeps() { # <number>: our folder; not known of a machine that is off
  local pid
  pid=$(machine_runs "$1" sshd | sed -n 1p)
  [[ -n $pid && -e /proc/$pid/root/run/vhostlimit-client ]]
}

machine_runs() { # <number> <word>: pids whose command line has it
  local pid
  for pid in $(ip netns pids "vlt-host$1"); do
    ! grep -q "$2" <<<"$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")" || printf '%s\n' "$pid"
  done
}
