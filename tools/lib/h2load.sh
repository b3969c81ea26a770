# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# h2load, which counts requests and speaks HTTP/2: one run, and its record from
# its words and its log of requests.

h2load_version() { h2load --version; }

h2load_prepare() { :; }

h2load_run() { # <client> <users> <seconds> <keepalive> <url> <file prefix>
  rm -f "$6.log"                # it would append
  client_exec "$1" h2load -n"${trial[requests]}" -c"$2" -m"${trial[streams]}" -N30s --log-file="$6.log" "$5" \
    >"$6.h2load" 2>"$6.err"
}

h2load_record() { h2load_parse "$1.h2load" "$1.log"; }   # <file prefix>

# The log: begin, status (-1: failed) and duration of each request, in us.
h2load_parse() { # <file> <log>
  local elapsed total
  elapsed=$(sed -n 's/^finished in \([0-9.]*[a-z]*\),.*/\1/p' "$1" | h2load_seconds)
  total=$(sed -n 's/^requests: \([0-9]*\) total, .*/\1/p' "$1")
  [[ -n $elapsed && -n $total && -f $2 ]] || die "$1 is not the complete end of an h2load run"
  sort -t $'\t' -k3,3n "$2" | jq -Rnc --arg elapsed "$elapsed" --argjson m "$total" '
    [inputs | split("\t") | map(tonumber) | select(.[1] >= 0 and .[1] < 400)] as $good | ($good | length) as $n
    | def at(part): if $n > 0 then $good[($n - 1) * part | floor][2] / 1e6 else null end;
      { transactions: $n, failures: ($m - $n), elapsed_s: ($elapsed | tonumber), rate: ($n / ($elapsed | tonumber)),
        availability: (if $m > 0 then 100 * $n / $m else 0 end),
        mean_s: (if $n > 0 then ($good | map(.[2]) | add) / $n / 1e6 else null end),
        longest_s: at(1), p50_s: at(0.5), p99_s: at(0.99) }'
}

h2load_seconds() { # "1.23s", "950.10ms", "20us" on stdin
  awk '/[0-9]us$/ { print $1 / 1e6; next } /ms$/ { print $1 / 1e3; next } /m$/ { print $1 * 60; next } /s$/ { print $1 + 0 }'
}
