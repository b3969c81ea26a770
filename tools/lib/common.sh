# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Messages, options, exit statuses and cleanup.  Every tool sources this.

prog=${0##*/}
top=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
exit_jobs=()
sleep_pid=                      # of interruptible_sleep
failure_status=1                # exit status after a failure; bench.sh has another one
words=()                        # see parse_options
declare -A given=() given_all=()
PATH=$PATH:/usr/sbin:/sbin      # missing in the PATH that some ways to become root leave
# ssh may forward a locale that is not installed.  bash would warn of it at each "LC_ALL=C command".
# shellcheck disable=SC2030,SC2031  # in a subshell
[[ -z $({ LC_ALL=${LC_ALL-}; } 2>&1) ]] || export LC_ALL=C.UTF-8

in_tree() { printf '%s/%s\n' "$top" "$1"; }   # <path>: in the source tree

say()    { printf '%s: %s\n' "$prog" "$*" >&2; }
die()    { say "$*"; exit "$failure_status"; }
cannot() { say "$*"; exit 77; }
run()    { printf '+ %s\n' "$*" >&2; "$@"; }

usage() { # the header comment of the program is its help
  sed -n '3,/^$/s/^# \{0,1\}//p' "$0"
  exit 0
}

# The version is in configure.ac.
print_version() {
  local version
  version=$(sed -n 's/^AC_INIT(\[mod_vhostlimit\], \[\(.*\)\])$/\1/p' "$(in_tree configure.ac)")
  printf '%s (mod_vhostlimit) %s\n' "$prog" "${version:-unknown}"
  exit 0
}

misuse() { # <sentence>
  say "$*"
  printf "Try '%s --help'.\n" "$prog" >&2
  exit 2
}

# Parses the command line with getopt(1).  Every program knows -h, --help and --version; both
# are answered here.  The others are the keys of given, with their last values, or yes; all
# values of an option, a line each, are in given_all.  The arguments are left in words.  Short
# options that begin with "+" end at the first argument.
# shellcheck disable=SC2034  # the programs read given and words
parse_options() { # <short options> <long options, with commas> <argument>...
  local short=$1 long=$2 said
  said=$(LC_ALL=C getopt -n "$prog" -o "${short}h" -l "help,version${long:+,$long}" -- "${@:3}" 2>&1) ||
    misuse "$(sed -n "1s/^$prog: //p" <<<"$said")"
  eval "set -- $said"           # getopt quotes its output for the shell
  while [[ $1 != -- ]]; do
    case $1 in
      -h | --help) usage ;;
      --version) print_version ;;
    esac
    given[$1]=yes
    if [[ ",$long," == *",${1#--}:,"* || $1 == -? && $short == *"${1#-}:"* ]]; then
      given[$1]=$2 given_all[$1]+=$2$'\n'
      shift
    fi
    shift
  done
  words=("${@:2}")
}

# jq with one of the libraries in tools/lib.  The library and those that it includes become one
# program here, each once, before the first that includes it.  jq's own "include" takes the wrong one of
# two functions of the same name in 1.7, and aborts in 1.8.2 (jqlang/jq#3597 and #3636).
lib_jq() { # <library> <filter> [<argument of jq>]...
  local lib_jq_program='' lib_jq_read=' '
  lib_jq_add "include \"$1\"; $2"
  jq -f <(printf '%s' "$lib_jq_program") "${@:3}"
}

lib_jq_add() { # <text of jq>: appends it to lib_jq_program, after the libraries that it includes
  local text=$1 name
  while [[ $text == *'include "'* ]]; do
    name=${text#*'include "'}
    name=${name%%'"'*}
    text=${text/"include \"$name\";"/}
    [[ $lib_jq_read == *" $name "* ]] || lib_jq_add "$(<"$(in_tree "tools/lib/$name.jq")")"
    lib_jq_read+="$name "
  done
  lib_jq_program+=$text$'\n'
}

need() { # <program>...
  local program
  for program; do
    command -v "$program" >/dev/null || cannot "$program is not installed; install it and try again"
  done
}

need_readable() { # <file>
  [[ -f $1 && -r $1 ]] || die "$1 is not a file that can be read"
}

need_root() {
  ((EUID == 0)) || cannot "this needs root (try: sudo $0)"
}

need_files() { # <number>: so many open files for each process from here on
  local hard
  hard=$(ulimit -Hn)
  [[ $hard == unlimited ]] || ((hard >= $1)) ||
    cannot "too few file descriptors: $1 are needed, the hard limit (ulimit -Hn) is $hard"
  [[ $(ulimit -Sn) == unlimited ]] || (($(ulimit -Sn) >= $1)) || ulimit -Sn "$1"
}

# The program ends with the status when it gets one of the signals.  A signal may arrive while
# bash 5.2 evaluates a command substitution.  Its parser then takes the trap for the rest of
# one and wants a parenthesis, which the trap therefore has in a second line; in any other
# case "exit" comes first.  A signal in a hundred is still lost.
exit_at() { # <status> <signal>...
  local command=$'exit '$1$'\n)'
  # shellcheck disable=SC2064  # expanded now
  trap "$command" "${@:2}"
}

# Registers a cleanup function; call this before the change.  The last one runs first.
on_exit() { # <function>
  if ((${#exit_jobs[@]} == 0)); then
    trap exit_now EXIT
    exit_at 130 INT
    exit_at 143 TERM HUP
  fi
  exit_jobs=("$1" "${exit_jobs[@]}")
}

exit_now() {
  local rc=$? job
  trap '' INT TERM HUP        # a second Ctrl-C must not stop the cleanup
  trap - EXIT
  ((rc != 1)) || rc=$failure_status       # a command failed under set -e
  [[ -z $sleep_pid ]] || kill "$sleep_pid" 2>/dev/null || true
  for job in "${exit_jobs[@]}"; do
    "$job" || true
  done
  exit "$rc"
}

# Debian mounts /run with noexec.  Mounts a tmpfs on the folder if it cannot run programs.
folder_let_run() { # <folder, empty> <mode>
  local program=$1/program runs=yes
  printf '#!/bin/sh\n' >"$program"
  chmod 700 "$program"
  "$program" 2>/dev/null || runs=no
  rm -f "$program"
  [[ $runs == yes ]] || mount -t tmpfs -o "mode=$2" tmpfs "$1"
}

folder_remove() { # <folder>
  ! mountpoint -q "$1" || umount -l "$1"
  rm -rf "$1"
}

interruptible_sleep() { # <seconds>: a signal ends it at once
  sleep "$1" &
  sleep_pid=$!
  wait "$sleep_pid"
  sleep_pid=
}
