# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Load from one client, whatever makes it: LOAD is siege, wrk, h2load or ab, and each has
# LOAD_prepare, LOAD_run, LOAD_record and LOAD_version in a file of its own.
# A record: transactions, failures, elapsed_s, rate, availability, mean_s,
# longest_s, p50_s, p99_s (null where the generator does not know).

# shellcheck source-path=SCRIPTDIR source=siege.sh
. "${BASH_SOURCE[0]%/*}/siege.sh"
# shellcheck source-path=SCRIPTDIR source=wrk.sh
. "${BASH_SOURCE[0]%/*}/wrk.sh"

# shellcheck source-path=SCRIPTDIR source=h2load.sh
. "${BASH_SOURCE[0]%/*}/h2load.sh"
# shellcheck source-path=SCRIPTDIR source=ab.sh
. "${BASH_SOURCE[0]%/*}/ab.sh"

# Those to choose from; h2load and ab, which count requests, belong to their tests.
load_kinds=(siege wrk)

load_known() { [[ " ${load_kinds[*]} " == *" $1 "* ]]; }

load_prepare() { "$1_prepare"; }        # <load>

# Replaces the shell: call it in the background or in parentheses.
load_run() { # <load> <client> <users> <seconds> <keepalive 0|1> <url> <file prefix>
  bed_unlock_child
  "$1_run" "${@:2}"
}

load_record()  { "$1_record" "$2"; }    # <load> <file prefix>
load_version() { "$1_version"; }        # <load>
