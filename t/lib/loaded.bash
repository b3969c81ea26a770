# SPDX-License-Identifier: Apache-2.0
#
# Load that goes on until the test says so, and what it got. A connection for each
# request, so that plain Apache would lose none by a graceful restart.

# So many clients, each one request after the other; they end with the test's
# folder, and after two minutes, in the long form twenty, and VL_SOAK seconds.
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

# One client of another kind, with the others: the command again and again.
also_load() { # <command>...
  local rounds_end=$((SECONDS + (${VL_LONG:-0} ? 1200 : 120) + ${VL_SOAK:-0}))
  (while [[ -e $loaded/go ]] && ((SECONDS < rounds_end)); do "$@" || :; done) 3>&- 4>&- >/dev/null 2>&1 &
  loaders+=($!)
}

end_load() {
  rm -f "$loaded/go"
  wait "${loaders[@]}"
}

# Instead of that in live.bash: a test that fails leaves no client behind.
teardown() {
  rm -f "${loaded:-$BATS_TEST_TMPDIR/load}/go"
  end_server
}

load_got()      { cat "$loaded"/[0-9]* 2>/dev/null | sort | uniq -c | xargs; }      # "2000 200", or more
load_answered() { (($(cat "$loaded"/[0-9]* 2>/dev/null | grep -c 200) >= $1)); }    # <number>

# One more hundred of requests have been answered.
load_goes_on() {
  local had
  had=$(cat "$loaded"/[0-9]* 2>/dev/null | grep -c 200) || :
  wait_until 20 load_answered $((had + ${1:-50}))
}
