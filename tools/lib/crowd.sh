# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: Apache-2.0
# crowd.c: clients with addresses of their own, a constant rate, or little patience.  Each
# request has a connection of its own, with -k too.
#
# A load is crowd, with options:
#   :addresses=N    requests are sent from N addresses of the client (bed_more_addresses)
#                   in turn, at most 16000
#   :rate=N         N requests a second of each user, whether or not the earlier ones were
#                   answered; N% is percent of the capacity (test_capacity) for all users
#                   together, and trial.sh puts the number
#   :patience=N     a user gives up after N seconds (30)
#   :hold           a user sends one request and keeps its connection until the end of the run.
#                   A transaction is a connection whose response began
#   :upgrade        the requests ask for a WebSocket
#   :pause=N        slow clients: a header every N seconds, and never the end of the request
# The addresses belong to the clients of the test bed, so such a test is test_local.

crowd_version() { echo 'crowd'; }

crowd_prepare() {
  gcc -std=gnu11 -O2 -Wall -o "$(load_dir)/crowd" "$(in_tree tools/lib/crowd.c)" || die 'crowd.c did not compile'
}

crowd_words() { # see load.sh
  local host=${5#http://} options=() option words
  local path=/${host#*/}
  host=${host%%/*}
  IFS=: read -ra words <<<"$7"
  for option in "${words[@]}"; do
    case $option in
      addresses=*) options+=("from=$(bed_more_addresses "$8")" "$option") ;;
      hold | upgrade) options+=("$option=1") ;;
      rate=* | patience=* | pause=*) options+=("$option") ;;
      crowd) ;;                 # no options
      *) die "crowd: unknown option '$option' of a load" ;;
    esac
  done
  load_words=("$1/crowd" "$host" 80 "$path" "$2" "${3%s}" "${options[@]}")
}

crowd_record() { crowd_parse "$1.crowd"; }      # <file prefix>

crowd_parse() { # <file>
  lib_jq load crowd -cse "$1" 2>/dev/null || die "$1 is not the complete output of crowd"
}
