#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: build the module with one of the compiler's sanitizers, in a folder of
#          its own, and run tests on Apache with it
# Usage:   sanitize.sh [-h] asan|ubsan|tsan [FILE]...
#   asan    AddressSanitizer and UndefinedBehaviorSanitizer
#   ubsan   UndefinedBehaviorSanitizer alone
#   tsan    ThreadSanitizer
#   FILE    test files, as of prove (those of t/unit that kill no process at single
#           instructions, t/3*, t/5*, t/71*, t/72*, t/81*, t/82*, t/85*, t/86* and
#           t/880, a changing load; some 30 minutes)
#   Reports without a frame of ours are Apache's own and not shown.
# Exit:    0 the tests passed and nothing was reported; 1 else; 2 usage; 77 cannot
#          run here (no runtime of the sanitizer)

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$here/lib/common.sh"

work=
remove_work() { rm -rf "$work"; }

flag_of()    { case $1 in asan) echo address,undefined ;; ubsan) echo undefined ;; tsan) echo thread ;; esac; }   # <kind>
library_of() { gcc -print-file-name="lib$1.so"; }                                                       # <kind>

copy_tree() {
  mkdir "$work/tree"
  (cd "$top" && find . \( -name .git -o -name .libs -o -name .deps -o -name results -o -name '*.o' -o -name '*.lo' -o -name '*.la' \
    -o -name '*.t' -o -name config.status \) -prune -o -type f -print0 | tar --null -T - -cf -) | tar -C "$work/tree" -xf -
}

build() { # <kind>
  (cd "$work/tree" && { [[ -x configure ]] || ./autogen.sh; } &&
    ./configure CFLAGS="-g -O1 -fno-omit-frame-pointer -fsanitize=$(flag_of "$1")" && make -s &&
    make -s -C t/unit check TESTS=) >"$work/log" 2>&1 ||
    { tail -n 30 "$work/log" >&2; die "the build failed"; }
}

# Apache is what apxs says it is: one that loads the runtime first.
wrap_apache() { # <kind>
  local apxs real
  apxs=$(command -v apxs || command -v apxs2) || cannot "apxs is needed and not installed"
  real=$("$apxs" -q SBINDIR)/$("$apxs" -q PROGNAME)
  mkdir "$work/bin"
  cat >"$work/bin/$(basename "$real")" <<END
#!/bin/sh
export LD_PRELOAD=$(library_of "$1")\${LD_PRELOAD:+:\$LD_PRELOAD}
exec $real "\$@"
END
  cat >"$work/bin/apxs" <<END
#!/bin/sh
case \$* in "-q SBINDIR") echo $work/bin ;; *) exec $apxs "\$@" ;; esac
END
  chmod 755 "$work"/bin/*
}

# Those with a frame of ours; each once.
reports() {
  local file
  for file in "$work"/said/*; do
    [[ ! -s $file ]] || ! grep -qE 'mod_vhostlimit|/vl_[a-z_]*\.[ch]' "$file" || cat "$file"
  done
}

# vl_slot_kill.t steps through a process, vl_slot_children.t kills some at random:
# the runtime has locks of its own that a killed one does not give back.
selection() {
  local file
  (cd "$work/tree" && for file in t/unit/*.t t/3*.bats t/5*.bats t/71*.bats t/72*.bats t/81*.bats t/82*.bats t/85*.bats t/86*.bats t/880*.bats; do
    [[ $file == t/unit/vl_slot_@(kill|children).t ]] || printf '%s\n' "$file"
  done)
}

main() {
  local opt kind files status=0
  while getopts ':h' opt; do
    case $opt in
      h) usage 0 ;;
      *) misuse "unknown option -$OPTARG" ;;
    esac
  done
  shift $((OPTIND - 1))
  kind=${1-}
  [[ $kind =~ ^(asan|ubsan|tsan)$ ]] || misuse "'$kind' is not asan, ubsan or tsan"
  shift
  need gcc make prove bats
  [[ -e $(library_of "$kind") ]] || cannot "lib$kind is needed and not installed"
  work=$(mktemp -d)
  on_exit remove_work
  mkdir -m 1777 "$work/said"
  chmod 755 "$work"
  copy_tree
  build "$kind"
  wrap_apache "$kind"
  mapfile -t files < <(if (($#)); then printf '%s\n' "$@"; else selection; fi)
  export VL_APXS=$work/bin/apxs
  export ASAN_OPTIONS=detect_leaks=0:log_path=$work/said/asan UBSAN_OPTIONS=print_stacktrace=1:log_path=$work/said/ubsan \
    TSAN_OPTIONS=die_after_fork=0:log_path=$work/said/tsan:ignore_noninstrumented_modules=1:report_signal_unsafe=0
  (cd "$work/tree" && prove --ext .bats --ext .t "${files[@]}" </dev/null) || status=1
  reports >"$work/reports"
  if [[ -s $work/reports ]]; then
    cat "$work/reports" >&2
    say "$kind reported something"
    status=1
  fi
  return "$status"
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
