# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ab, which counts requests: one run, and its record from its words and its table
# of percentiles, PREFIX.times.

ab_version() { ab -V | sed -n 's/^This is ApacheBench, Version \([0-9.]*\).*/ab \1/p'; }

ab_prepare() { :; }

# -l: a page may be of another length each time; -r: a broken connection is counted.
ab_words() { # <dir of its files> <users> <length> <keepalive> <url> <file of times>
  local keep=()
  ! (($4)) || keep=(-k)
  load_words=(ab -q -l -r -s 60 "${keep[@]}" -n "${3%req}" -c "$2" -e "$6" "$5")
}

ab_run() { # <client> <users> <length> <keepalive> <url> <file prefix>
  ab_words "$(load_dir)" "${@:2:4}" "$6.times"
  client_exec "$1" "${load_words[@]}" >"$6.ab" 2>"$6.err"
}

ab_record() { ab_parse "$1.ab" "$1.times"; }   # <file prefix>

ab_parse() { # <file> <percentiles>
  [[ -f $2 ]] || die "$1 is not the complete output of ab"
  # shellcheck disable=SC2016  # jq's own
  sed -n 's/^\([A-Z][A-Za-z0-9 -]*\): *\([0-9.]*\).*/\1\t\2/p' "$1" |
    lib_jq load 'ab($percentiles)' -Rnc --rawfile percentiles "$2" 2>/dev/null ||
    die "$1 is not the complete output of ab"
}
