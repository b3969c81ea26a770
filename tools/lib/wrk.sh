# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# wrk: one run and its end as the same record that siege gives.

wrk_version() { wrk -v 2>&1 | sed -n '1s/ \[.*//p'; }

wrk_prepare() { # see wrk-tls.c
  cp "$(in_tree tools/lib/wrk.lua)" "$(load_dir)"
  gcc -D_GNU_SOURCE -std=gnu11 -O2 -Wall -shared -fPIC -o "$(load_dir)/wrk-tls.so" "$(in_tree tools/lib/wrk-tls.c)" -ldl ||
    die 'wrk-tls.c did not compile'
}

wrk_words() { # see load.sh
  local header=() before=()
  (($4)) || header=(-H 'Connection: close')
  [[ $5 != https:* ]] || before=(env LD_PRELOAD="$1/wrk-tls.so")
  load_words=("${before[@]}" wrk -t1 -c"$2" -d"$3" --timeout 30s --latency "${header[@]}" -s "$1/wrk.lua" "$5")
}

wrk_record() { wrk_parse "$1.err"; }   # <file prefix>

wrk_parse() { # <file>
  sed -n '/^{/p' "$1" | lib_jq load wrk -cse 2>/dev/null || die "$1 is not the complete output of wrk"
}
