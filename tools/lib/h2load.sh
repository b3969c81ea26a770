# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# h2load: HTTP/2 with several streams a connection, as the same record that siege
# gives.  What was begun and not answered at the end is not counted.

h2load_version() { h2load --version; }

h2load_prepare() { :; }

h2load_run() { # <client> <users> <seconds> <keepalive> <url> <file prefix> <streams a connection>
  client_exec "$1" h2load -t1 -c"$((($2 + $7 - 1) / $7))" -m"$7" -D"$3" "$5" >"$6.h2load" 2>"$6.err"
}

h2load_record() { h2load_parse "$1.h2load"; }   # <file prefix>

h2load_parse() { # <file>
  LC_ALL=C awk '
    function seconds(text) { return text ~ /us$/ ? text / 1e6 : text ~ /ms$/ ? text / 1e3 : text + 0 }
    /^finished in / { elapsed = seconds(substr($3, 1, length($3) - 1)) }
    /^requests: / { failed = $10 }
    /^status codes: / { good = $3 + $5; known = 1 }
    /^time for request: / { longest = seconds($5); mean = seconds($6) }
    END {
      if (!known || !elapsed) exit 1
      printf "%d %d %.6f %.6f %.6f\n", good, failed, elapsed, longest, mean
    }' "$1" | jq -Rcse 'split(" ") | map(tonumber) | . as [$good, $bad, $elapsed, $longest, $mean]
    | { transactions: $good, failures: $bad, elapsed_s: $elapsed, rate: ($good / $elapsed),
        availability: (if $good + $bad > 0 then 100 * $good / ($good + $bad) else 0 end),
        mean_s: $mean, longest_s: $longest, p50_s: null, p99_s: null }' 2>/dev/null ||
    die "$1 is not the complete end of an h2load run"
}
