#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: print what the sandboxes of many sites cost: time and memory of a start, time
#          of a graceful restart and of a stop, and which processes and memory remain
# Usage:   sandboxes.sh [-n SITES]
#   -n SITES     how many sites the server has, from 1 to 5000 (1000)
#   -h, --help   this help
#   --version    the version
#   The server is that of tools/setup.sh, with the module of this tree (./autogen.sh &&
#   ./configure && make) and VhostLimitCgroup off. It starts with VhostLimitSandbox Off,
#   Files and Full. The memory is what the kernel charges to the server's cgroup, with the
#   kernel's own memory for namespaces and mounts. Keepers are the processes that keep
#   namespaces: each of the four namespaces of a site ends with its last process. Takes
#   about a minute.
# Exit:    0 printed; 1 failed, or a process was left; 2 usage; 77 cannot run: not root, no
#          cgroup for memory, or the module is not built

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/bed.sh"

sites=1000
vhosts=
group=/$bed_name-sandboxes

clean_up() {
  "$here/setup.sh" down >&2 || :
  [[ -z $vhosts ]] || rm -rf "$vhosts"
  poll_until 5 cgroup_remove "$group" || say "cgroup $group could not be removed: a process is still in it"
}

make_group() { # where the kernel counts memory
  local root
  while read -r root; do
    [[ ! -e $root/memory.usage_in_bytes && ! -e $root/memory.stat ]] || mkdir -p "$root$group"
  done < <(cgroup_roots)
  memory=$(cgroup_file "$group" memory.usage_in_bytes memory.current) || cannot "no cgroup counts memory on this machine"
}

make_sites() {
  local n
  vhosts=$(mktemp -d /run/vl-sandboxes.XXXXXX)
  chmod 755 "$vhosts"
  for ((n = 1; n <= sites; n++)); do
    mkdir "$vhosts/$n"
    printf '<VirtualHost %s:80>\nServerName many%s.test\nDocumentRoot "%s"\n</VirtualHost>\n' "$bed_address" "$n" "$vhosts/$n"
  done >"$vhosts/conf"
}

httpd() { (cgroup_enter "$group" && server_exec "$(httpd_binary)" -f "$bed_dir/httpd.conf" -k "$1"); }     # <start | graceful | stop>
parent() { process_ours "$bed_dir/httpd.pid" "$bed_dir/httpd.conf"; }
starts() { grep -c 'resuming normal operations' "$bed_dir/httpd.log" || true; }
starts_are() { (($(starts) == $1)); }           # <number>
keepers() { pgrep -cf '^sh -c read -r end # sandbox of ' || true; }
is_over() { process_gone "$1" && (($(keepers) == 0)); }  # <pid>
processes() { sort -u "${memory%/*}/cgroup.procs" | wc -l; }

now() { echo "${EPOCHREALTIME/[.,]/}"; }
since() { awk -v from="$1" -v to="$(now)" 'BEGIN { printf "%.1f s", (to - from) / 1e6 }'; }       # <now>

measure() { # <mode>
  local began start graceful stop pid empty bytes made left
  "$here/setup.sh" up -M -D 'VhostLimitCgroup off' -D "VhostLimitSandbox $1" -D "Include \"$vhosts/conf\"" >&2 || die "the test bed cannot be made"
  pid=$(parent)
  httpd stop
  poll_until 60 is_over "$pid" || die "the server did not end within 60 s"
  : >"$bed_dir/httpd.log"
  empty=$(<"$memory")
  began=$(now)
  httpd start
  poll_until 120 starts_are 1 || die "the server did not start: $(tail -n 3 "$bed_dir/httpd.log")"
  start=$(since "$began")
  sleep 1                       # all child processes are there
  bytes=$(($(<"$memory") - empty))
  made=$(keepers)
  began=$(now)
  httpd graceful
  poll_until 120 starts_are 2 || die "the server did not restart: $(tail -n 3 "$bed_dir/httpd.log")"
  graceful=$(since "$began")
  pid=$(parent)
  began=$(now)
  httpd stop
  poll_until 60 process_gone "$pid" || die "the server did not end within 60 s"
  stop=$(since "$began")
  sleep 1                       # the kernel frees namespaces a little later
  left=$(processes)
  printf '%-8s %8s %10s %10s %8s %9d %15d %9s\n' "$1" "$start" "$((bytes / 1000000)) MB" "$graceful" "$stop" "$made" "$left" \
    "$((($(<"$memory") - empty) / 1000000)) MB"
  "$here/setup.sh" down >&2
  ((left == 0)) || failed=yes
}

main() {
  local memory mode failed=no
  parse_options n: '' "$@"
  set -- "${words[@]}"
  while [[ $1 != -- ]]; do
    case $1 in -n) sites=$2; shift ;; esac
    shift
  done
  shift
  (($# == 0)) || misuse "unexpected argument '$1'"
  [[ $sites =~ ^([1-4]?[0-9]{1,3}|5000)$ && $sites != 0* ]] || misuse "-n: '$sites' is not a whole number from 1 to 5000"
  need_root
  need pgrep ip
  on_exit clean_up
  make_group
  make_sites
  printf '%-8s %8s %10s %10s %8s %9s %15s %9s\n' sandbox start memory graceful stop keepers 'left: processes' memory
  for mode in Off Files Full; do measure "$mode"; done
  [[ $failed == no ]] || die "processes were left after the end of the server"
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
