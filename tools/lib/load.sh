# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Load from one client, whatever makes it and wherever that is: LOAD is siege or
# wrk, and each has LOAD_files, LOAD_words, LOAD_run, LOAD_record and LOAD_version in
# a file of its own.
# A record: transactions, failures, elapsed_s, rate, availability, mean_s,
# longest_s, p50_s, p99_s (null where the generator does not know).

# shellcheck source-path=SCRIPTDIR source=siege.sh
. "${BASH_SOURCE[0]%/*}/siege.sh"
# shellcheck source-path=SCRIPTDIR source=wrk.sh
. "${BASH_SOURCE[0]%/*}/wrk.sh"
# shellcheck source-path=SCRIPTDIR source=remote.sh
. "${BASH_SOURCE[0]%/*}/remote.sh"

load_kinds=(siege wrk)
load_words=()                   # what LOAD_words leaves: the command

load_known() { [[ " ${load_kinds[*]} " == *" $1 "* ]]; }

load_dir() { bed_file load; }           # what the generator reads; remote clients have a copy

load_prepare() { # <load> <keepalive 0|1>
  mkdir -p "$(load_dir)"
  "$1_files" "$(load_dir)" "$2"
}

# Replaces the shell: call it in the background or in parentheses.
load_run() { # <load> <client> <users> <seconds> <keepalive 0|1> <url> <file prefix>
  bed_unlock_child
  if remote_used; then remote_load "$@"; else "$1_run" "${@:2}"; fi
}

load_record()  { "$1_record" "$2"; }    # <load> <file prefix>

load_version() { # <load>
  if remote_used; then remote_version "$1"; else "$1_version"; fi
}
