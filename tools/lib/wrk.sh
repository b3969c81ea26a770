# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# wrk: one run and its end as the same record that siege gives.

wrk_version() { wrk -v 2>&1 | sed -n '1s/ \[.*//p'; }

wrk_prepare() { cp "$(in_tree tools/lib/wrk.lua)" "$(load_dir)"; }

wrk_words() { # <dir of its files> <users> <length> <keepalive> <url>
  local header=()
  (($4)) || header=(-H 'Connection: close')
  load_words=(wrk -t1 -c"$2" -d"$3" --timeout 30s --latency "${header[@]}" -s "$1/wrk.lua" "$5")
}

wrk_run() { # <client> <users> <length> <keepalive> <url> <file prefix>
  wrk_words "$(load_dir)" "${@:2:4}"
  client_exec "$1" "${load_words[@]}" >"$6.wrk" 2>"$6.err"
}

wrk_record() { wrk_parse "$1.err"; }   # <file prefix>

wrk_parse() { # <file>
  sed -n '/^{/p' "$1" | lib_jq load wrk -cse 2>/dev/null || die "$1 is not the complete output of wrk"
}
