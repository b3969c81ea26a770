#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# VL_LONG=1: every test of bench.sh in its quick form runs to its end by itself, here
# and with clients over ssh, and its report opens in a browser without a complaint.
# Takes about an hour; what became of each test is said as it goes.

bats_require_minimum_version 1.5.0
load lib/common
load lib/machines
load lib/browser

need_long() { [[ ${VL_LONG:-0} != 0 ]] || { echo "VL_LONG is not 1"; return 1; }; }

setup() {
  requires long root netns sar siege wrk chromium
  cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
  end_browser
  [[ ! -d $BATS_FILE_TMPDIR/machines ]] || machines_down 2>/dev/null
}

here() { exec "$@"; }           # as on_server

every_test() { # <here|on_server> [<option>]...
  local name what begun bad=()
  while read -r name _; do
    begun=$SECONDS
    what=$(what_becomes_of "$name" "$@") || bad+=("$name")
    printf '# %-12s %4d s  %s\n' "$name" $((SECONDS - begun)) "$what" >&3
  done < <("$TOP/tools/bench.sh" -l)
  is "${bad[*]-}" '' "tests that failed"
}

what_becomes_of() { # <test> <here|on_server> [<option>]...
  local status=0
  ("$2" timeout 1200 "$TOP/tools/bench.sh" --quick -o "$1" "${@:3}" "$1") >"$1.out" 2>"$1.err" </dev/null 3>&- || status=$?
  case $status in
    0) look_at "$1" && jq -r '"\(.runs | length) runs, \([.runs[].total.transactions] | add) answers"' "$1/result.json" ;;
    2 | 77) head -n 1 "$1.err"; [[ $status == 77 ]] || grep -q '^bench.sh: --clients: ' "$1.err" ;;
    *) printf 'status %s: %s\n' "$status" "$(grep -v -e ' left$' -e ': report.html' "$1.err" | tail -n 1)"; return 1 ;;
  esac
}

look_at() { # <folder>: a sentence and 1 if anything is wrong with its report
  local said
  rm -rf "$(browser_dir)"
  start_browser 2>/dev/null
  open_page "file://$PWD/$1/report.html"
  said=$(browser_complaints)
  [[ $(in_page "$(sound)") == true ]] || said+='a table or chart is missing'
  end_browser 2>/dev/null
  [[ -z $said ]] || { printf 'report.html: %s\n' "$said"; return 1; }
}

sound() { # javascript
  cat <<'END'
document.querySelectorAll("#pages tbody tr").length > 5 && document.querySelectorAll("figure svg").length > 0
  && [...document.querySelectorAll("figure svg")].every(s => s.getBoundingClientRect().height > 60)
  && performance.getEntriesByType("resource").length == 0
END
}

@test "every test of bench.sh, with the clients of the test bed" {
  every_test here
}

@test "every test of bench.sh, with clients over ssh" {
  requires sshd
  machines_up
  every_test on_server --clients one,two,three --install
}
