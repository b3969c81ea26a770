# SPDX-License-Identifier: Apache-2.0
#
# Load until the test ends it, and its responses. Each request has a connection of its own,
# because plain Apache closes idle connections in a graceful restart.

# Clients that each send one request after the other. They end when the test's folder is
# gone, and after two minutes (twenty in the long form) and VL_SOAK seconds.
begin_load() { # <clients> <vhost> <path>
  local i rounds_end=$((SECONDS + (${VL_LONG:-0} ? 1200 : 120) + ${VL_SOAK:-0}))
  loaded=$BATS_TEST_TMPDIR/load
  loaders=()
  mkdir -p "$loaded"
  : >"$loaded/go"
  for ((i = 0; i < $1; i++)); do
    (while [[ -e $loaded/go ]] && ((SECONDS < rounds_end)); do
      web -o /dev/null -H 'Connection: close' -w '%{http_code}\n' "$(url "$2" "$3?[1-20]")" >>"$loaded/$i" 2>>"$loaded/errors" || :
    done) 3>&- 4>&- >/dev/null 2>&1 &
    loaders+=($!)
  done
}

# Adds a client that repeats the command.
also_load() { # <command>...
  local rounds_end=$((SECONDS + (${VL_LONG:-0} ? 1200 : 120) + ${VL_SOAK:-0}))
  (while [[ -e $loaded/go ]] && ((SECONDS < rounds_end)); do "$@" || :; done) 3>&- 4>&- >/dev/null 2>&1 &
  loaders+=($!)
}

end_load() {
  rm -f "$loaded/go"
  wait "${loaders[@]}"
}

# Replaces that of live.bash, so that a failed test leaves no client behind.
teardown() {
  rm -f "${loaded:-$BATS_TEST_TMPDIR/load}/go"
  end_server
}

load_got()      { cat "$loaded"/[0-9]* 2>/dev/null | sort | uniq -c | xargs; }      # "2000 200", or more
load_answered() { (($(cat "$loaded"/[0-9]* 2>/dev/null | grep -c 200) >= $1)); }    # <number>

# Waits until more requests have been answered: 50, or as many as named.
load_goes_on() {
  local had
  had=$(cat "$loaded"/[0-9]* 2>/dev/null | grep -c 200) || :
  wait_until 20 load_answered $((had + ${1:-50}))
}
