#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: fuzz the parsers of untrusted input with libFuzzer, AddressSanitizer and
#          UndefinedBehaviorSanitizer
# Usage:   fuzz.sh [-l] [-s SECONDS] [-n EXECUTIONS] [-k DIRECTORY] [TARGET]...
#   -s SECONDS      time for each target (3)
#   -n EXECUTIONS   executions of each target, instead of a time
#   -k DIRECTORY    keep inputs that reach new code, and those that fail, below DIRECTORY
#   -l              list the targets
#   -h, --help      this help
#   --version       the version
#   TARGET          the file t/fuzz/TARGET.c (all); its seeds are in t/fuzz/corpus/TARGET
#   Prints a line for each target: executions, seconds, paths (libFuzzer's features).
# Exit:    0 nothing found; 1 a target failed, and its input is shown; 2 usage; 77
#          cannot run: clang or libFuzzer is missing

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"

work=
# Without config.h the older of two functions of expat is called.
flags=(-g -O1 -fno-omit-frame-pointer -D_GNU_SOURCE -Wno-deprecated-declarations)
checks=address,undefined

remove_work() { rm -rf "$work"; }

targets() { local file; for file in "$(in_tree t/fuzz)"/*.c; do basename "$file" .c; done; }

core_sources() {
  sed -n '/^libvlcore_la_SOURCES/,/[^\\]$/p' "$(in_tree mod_vhostlimit/Makefile.am)" |
    grep -oE '[a-z]*/vl[a-z_0-9]*\.c' | sed "s|^|$(in_tree mod_vhostlimit)/|"
  # vhostlimitctl without its command line
  find "$(in_tree ctl)" -name 'ctl_*.c' ! -name ctl_main.c
}

build_core() { # all of it, so that a new target is one new file
  (cd "$work" && core_sources | xargs -n 6 -P "$(nproc)" \
    clang "${flags[@]}" -I"$(in_tree mod_vhostlimit)" -I"$(in_tree ctl)" -fsanitize="fuzzer-no-link,$checks" -fno-sanitize-recover=all -c) &&
    ar rc "$work/core.a" "$work"/*.o
}

build_target() { # <name>
  clang "${flags[@]}" -fsanitize="fuzzer,$checks" -fno-sanitize-recover=all -I"$(in_tree mod_vhostlimit)" -I"$(in_tree ctl)" \
    -o "$work/$1" "$(in_tree "t/fuzz/$1.c")" "$work/core.a" "${libraries[@]}" -lm
}

# Prints the target's row; if it fails, the end of its output.
fuzz() { # <name>
  local own=$kept/$1 log=$work/$1.log dict options=("-max_total_time=$seconds")
  mkdir -p "$own"
  ((executions == 0)) || options=("-runs=$executions")
  dict=$(in_tree "t/fuzz/$1.dict")
  [[ ! -e $dict ]] || options+=("-dict=$dict")
  if ! (cd "$work" && "./$1" -print_final_stats=1 -max_len=8192 -len_control=20 -timeout=10 -artifact_prefix="$own/FAILED-" \
    "${options[@]}" "$own" "$(in_tree "t/fuzz/corpus/$1")") >"$log" 2>&1 </dev/null; then
    tail -n 60 "$log" >&2
    say "target $1 failed"
    return 1
  fi
  awk -v target="$1" '/ ft: / { for (i = 1; i < NF; i++) if ($i == "ft:") paths = $(i + 1) }
    /^Done / { runs = $2; seconds = $5 }
    END { printf "%-10s %12d %8d %8d\n", target, runs, seconds, paths }' "$log"
}

main() {
  local seconds executions kept target failed=0 libraries
  parse_options ls:n:k: '' "$@"
  set -- "${words[@]}"
  [[ ! -v given[-l] ]] || { targets; return; }
  seconds=${given[-s]-3} executions=${given[-n]-0} kept=${given[-k]+$(realpath -m -- "${given[-k]}")}
  [[ $seconds =~ ^[1-9][0-9]{0,5}$ ]] || misuse "-s: '$seconds' is not a whole number from 1 to 999999"
  [[ $executions =~ ^(0|[1-9][0-9]{0,9})$ ]] || misuse "-n: '$executions' is not a whole number up to 9999999999"
  for target; do [[ -f $(in_tree "t/fuzz/$target.c") ]] || misuse "unknown target '$target' (-l lists the targets)"; done
  (($#)) || { mapfile -t targets < <(targets) && set -- "${targets[@]}"; }
  need clang pkg-config ar
  work=$(mktemp -d)
  on_exit remove_work
  : "${kept:=$work/corpus}"
  read -ra libraries < <(pkg-config --cflags apr-1 apr-util-1 jansson)
  flags+=("${libraries[@]}" '-DCTL_EXAMPLES=""')
  read -ra libraries < <(pkg-config --libs apr-1 apr-util-1 jansson)
  build_core || die "the core does not build with clang"
  printf '%-10s %12s %8s %8s\n' target executions seconds paths
  for target; do
    build_target "$target" 2>"$work/log" || { cat "$work/log" >&2; cannot "target $target cannot be built; install libFuzzer (package libclang-rt-dev)"; }
    fuzz "$target" || failed=1
  done
  return "$failed"
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
