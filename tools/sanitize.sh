#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: build the module with one of the compiler's sanitizers, in a folder of its
#          own, and run tests with it
# Usage:   sanitize.sh [-s SECONDS] asan|ubsan|tsan [FILE]...
#   asan         AddressSanitizer and UndefinedBehaviorSanitizer
#   ubsan        UndefinedBehaviorSanitizer alone
#   tsan         ThreadSanitizer
#   -s SECONDS   length of each test of t/880, the load (60)
#   FILE         test files, as for prove (all that run the module, about an hour;
#                those that cannot run with a sanitizer are named with the reason)
#   -h, --help   this help
#   --version    the version
#   The files run one by one, each with a time limit. A table of all is printed at the
#   end. Reports, and the output of failed files, go to stderr. Reports without a stack
#   frame of the module are about Apache and are not shown.
# Exit:    0 the tests passed and nothing was reported; 1 a test failed or something was
#          reported; 2 usage; 77 cannot run: the sanitizer's runtime is missing

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"

work=
seconds=60
remove_work() { end_left; rm -rf "$work"; }

flag_of()    { case $1 in asan) echo address,undefined ;; ubsan) echo undefined ;; tsan) echo thread ;; esac; }   # <kind>
library_of() { gcc -print-file-name="lib$1.so"; }                                                       # <kind>

copy_tree() {
  mkdir "$work/tree"
  (cd "$top" && find . \( -name .git -o -name .bench-build -o -name .libs -o -name .deps -o -name results -o -name '*.o' -o -name '*.lo' -o -name '*.la' \
    -o -name '*.t' -o -name config.status \) -prune -o -type f -print0 | tar --null -T - -cf -) | tar -C "$work/tree" -xf -
}

build() { # <kind>
  (cd "$work/tree" && { [[ -x configure ]] || ./autogen.sh; } &&
    ./configure CFLAGS="-g -O1 -fno-omit-frame-pointer -fsanitize=$(flag_of "$1")" && make -s &&
    make -s -C t/unit check TESTS=) >"$work/log" 2>&1 ||
    { tail -n 30 "$work/log" >&2; die "the build failed"; }
}

# Tests find Apache through apxs.  This apxs names an Apache that preloads the sanitizer's
# runtime, and then the library that makes forks safe for it.
wrap_apache() { # <kind>
  local apxs real flags=()
  apxs=$(command -v apxs || command -v apxs2) || cannot "apxs is not installed; install apache2-dev or httpd-devel"
  real=$("$apxs" -q SBINDIR)/$("$apxs" -q PROGNAME)
  mkdir "$work/bin"
  [[ $1 != tsan ]] || flags+=(-g -O1 -fsanitize=thread -DNO_THREADS "$(in_tree tools/lib/sanitize-atomic.c)")
  gcc -shared -fPIC "${flags[@]}" -o "$work/fork.so" "$(in_tree tools/lib/sanitize-fork.c)" -ldl
  install -m 644 "$(in_tree tools/lib/sanitize-tsan.supp)" "$work/tsan.supp"
  cat >"$work/bin/$(basename "$real")" <<END
#!/bin/sh
export LD_PRELOAD=$(library_of "$1"):$work/fork.so\${LD_PRELOAD:+:\$LD_PRELOAD}
exec $real "\$@"
END
  cat >"$work/bin/apxs" <<END
#!/bin/sh
case \$* in "-q SBINDIR") echo $work/bin ;; *) exec $apxs "\$@" ;; esac
END
  chmod 755 "$work"/bin/*
}

# Prints why a file of the default selection is left out; 1 if it is not.
cannot_run() { # <file>
  [[ $kind != tsan || $1 != t/72* ]] || { echo "with ThreadSanitizer the parent process has no control socket (tools/lib/sanitize-fork.c)"; return; }
  case $1 in
    t/713*)                    echo "it asserts times, which a sanitizer changes" ;;
    t/unit/vl_slot_kill.t)     echo "it stops a process at single instructions, even while that holds a lock of the sanitizer's runtime" ;;
    t/unit/vl_slot_children.t) echo "it kills processes, and a killed process does not release locks of the sanitizer's runtime" ;;
    t/830*)                    echo "valgrind cannot run a program with a sanitizer" ;;
    t/840* | t/842*)           echo "it builds its own programs and runs no server" ;;
    t/890*)                    echo "an emulated machine is too slow for it" ;;
    *) return 1 ;;
  esac
}

selection() {
  local file why
  for file in t/unit/*.t t/[234578]*.bats; do
    if why=$(cannot_run "$file"); then say "$file is left out: $why"; else printf '%s\n' "$file"; fi
  done
}

# Kills what the tests have started: all of it has this apxs in its environment.
end_left() {
  local file pid
  for file in /proc/[0-9]*/environ; do
    pid=${file//[!0-9]/}
    ! grep -qsxzF "VL_APXS=$work/bin/apxs" "$file" || kill -KILL "$pid" 2>/dev/null || true
  done
}

# Prints reports with a stack frame of the module.  Each process has a file of its own;
# reports of ThreadSanitizer are between lines of equals signs.  The location of a file
# descriptor is removed first: a race between threads of Apache is not the module's because
# the module has accepted that connection.
reports_of_ours() {
  find "$work/said" -type f -size +0 -exec cat {} + | awk -v RS='=================+\n' '
    { ours = $0; sub(/\n  Location is file descriptor .*/, "", ours) }
    ours ~ /mod_vhostlimit|\/vl_[a-z_]*\.[ch]/'
}

count_tap() { grep -cE "$1" "$work/tap" || true; }     # <regular expression>

# Runs a file and adds a row to the table.  Returns 1 if a test failed or a report was made.
try_file() { # <file>
  local rc=0 start=$SECONDS passed skipped failed reports note='' runner=()
  rm -rf "$work"/said/*
  [[ $1 != *.bats ]] || runner=(bats --tap)
  timeout -k 10 $((600 + 3 * seconds)) env VL_APXS="$work/bin/apxs" VL_SANITIZER="$kind" VL_SOAK="$seconds" "${runner[@]}" "./$1" >"$work/tap" 2>&1 </dev/null &
  wait "$!" || rc=$?
  end_left
  skipped=$(count_tap '^ok .*# [Ss][Kk][Ii][Pp]')
  passed=$(($(count_tap '^ok ') - skipped))
  failed=$(count_tap '^not ok ')
  reports_of_ours >"$work/reports"
  reports=$(grep -cE '^SUMMARY: |runtime error: ' "$work/reports" || true)
  [[ ! -s $work/reports || $reports != 0 ]] || reports=1
  ((rc != 124 && rc != 137)) || note='not in time'
  ((rc == 0 || failed > 0)) || note=${note:-"ended with $rc"}
  printf '%-42s %6d %6d %7d %7d %7d  %s\n' "$1" "$passed" "$failed" "$skipped" "$reports" $((SECONDS - start)) "$note" >>"$work/table"
  cat "$work/reports" >&2
  ((rc == 0)) || cat "$work/tap" >&2
  ((rc == 0 && reports == 0))
}

main() {
  local kind files file i=0 status=0
  parse_options s: '' "$@"
  set -- "${words[@]}"
  seconds=${given[-s]-$seconds}
  [[ $seconds =~ ^[1-9][0-9]{0,4}$ ]] || misuse "-s: '$seconds' is not a whole number from 1 to 99999"
  (($#)) || misuse "missing argument: asan, ubsan or tsan"
  kind=$1
  [[ $kind =~ ^(asan|ubsan|tsan)$ ]] || misuse "'$kind' is not asan, ubsan or tsan"
  shift
  need gcc make bats
  [[ -e $(library_of "$kind") ]] || cannot "lib$kind is not installed; install the sanitizer runtime of this gcc"
  work=$(mktemp -d)
  on_exit remove_work
  mkdir -m 1777 "$work/said"
  chmod 755 "$work"
  copy_tree
  build "$kind"
  wrap_apache "$kind"
  cd "$work/tree"
  mapfile -t files < <(if (($#)); then printf '%s\n' "$@"; else selection; fi)
  export ASAN_OPTIONS=detect_leaks=0:log_path=$work/said/asan UBSAN_OPTIONS=print_stacktrace=1:log_path=$work/said/ubsan \
    TSAN_OPTIONS=die_after_fork=0:log_path=$work/said/tsan:suppressions=$work/tsan.supp:report_signal_unsafe=0
  printf '%-42s %6s %6s %7s %7s %7s\n' file passed failed skipped reports seconds >"$work/table"
  for file in "${files[@]}"; do
    say "$((i += 1)) of ${#files[@]}: $file"
    try_file "$file" || { status=1; say "$file failed; see above"; }
  done
  cat "$work/table"
  return "$status"
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
