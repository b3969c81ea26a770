# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The load of one client, here or on another machine.  LOAD is siege or wrk, or a
# generator that a test names: h2load, crowd or hosts.  Each has a file with
# LOAD_prepare, LOAD_record, LOAD_version, and LOAD_words, which sets load_words to its
# command: <folder of its files> <users> <length> <keepalive> <url> <file of times> <streams> <client>.
# load.jq makes a record: transactions, failures, elapsed_s, rate, availability;
# response times mean_s, longest_s, p50_s, p90_s, p99_s and p999_s; times, an array of
# [seconds, number of answers], from which the percentiles of several clients are made.
# What the generator does not tell is null.

. "${BASH_SOURCE[0]%/*}/siege.sh"
. "${BASH_SOURCE[0]%/*}/wrk.sh"
. "${BASH_SOURCE[0]%/*}/h2load.sh"
. "${BASH_SOURCE[0]%/*}/hosts.sh"
. "${BASH_SOURCE[0]%/*}/crowd.sh"
. "${BASH_SOURCE[0]%/*}/remote.sh"

# Those that --load accepts; the others belong to the tests that name them.
load_kinds=(siege wrk)
load_words=()                   # see LOAD_words

load_known() { [[ " ${load_kinds[*]} " == *" $1 "* ]]; }

load_dir() { bed_file load; }           # files of the generators; clients on other machines get a copy

load_prepare() { # <keepalive 0|1> <load>...: makes their files
  local load
  mkdir -p "$(load_dir)"
  for load in "${@:2}"; do "${load}_prepare" "$1"; done
}

load_packages() { # <load>...: the roles in packages.sh of what they need here
  local load
  ! remote_used || echo ssh
  for load; do
    case $load in crowd) ;; hosts) remote_used || echo wrk ;; *) remote_used || echo "$load" ;; esac
  done
}

# Replaces the shell: call it in the background or in parentheses.  The length is a
# time (25s).
load_run() { # <load>[:<streams>] <client> <users> <length> <keepalive 0|1> <url> <file prefix>
  local load=${1%%:*}
  bed_unlock_child
  ! remote_used || { remote_load "$@"; return; }
  rm -f "$7.times"              # h2load would append
  "${load}_words" "$(load_dir)" "${@:3:4}" "$7.times" "${1#*:}" "$2"
  [[ $load != siege ]] || { siege_run "$2" "$7"; return; }
  client_exec "$2" "${load_words[@]}" >"$7.$load" 2>"$7.err"
}

load_record() { # <load>[:<streams>] <file prefix>
  ! remote_used || remote_unpack "${1%%:*}" "$2"
  "${1%%:*}_record" "$2"
}

load_version() { # <load>
  if remote_used; then remote_version "$1"; else "$1_version"; fi
}
