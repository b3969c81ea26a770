# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# h2load: HTTP/2 with several streams a connection, as the same record that siege
# gives.  What was begun and not answered at the end is not counted.  A log of all
# answers, PREFIX.times, tells the percentiles.
#
# A load is h2load:STREAMS, with so many streams of one connection.

h2load_version() { h2load --version; }

h2load_prepare() { # see h2load-end.c
  gcc -std=gnu11 -O2 -Wall -shared -fPIC -o "$(load_dir)/h2load-end.so" "$(in_tree tools/lib/h2load-end.c)" ||
    die 'h2load-end.c did not compile'
}

h2load_words() { # see load.sh
  local seconds=${3%s}
  load_words=(timeout -k 5 "$((seconds + 30))" env LD_PRELOAD="$1/h2load-end.so" BED_SECONDS="$seconds"
    h2load -t1 -c"$((($2 + $7 - 1) / $7))" -m"$7" -D"$seconds" --log-file="$6" "$5")
}

h2load_record() { h2load_parse "$1.h2load" "$1.times" "$1.err"; }   # <file prefix>

# shellcheck disable=SC2016  # jq's own
h2load_parse() { # <file> [<log> [<what it said>]]
  LC_ALL=C awk '
    function seconds(text) { return text ~ /us$/ ? text / 1e6 : text ~ /ms$/ ? text / 1e3 : text + 0 }
    /^finished in / { elapsed = seconds(substr($3, 1, length($3) - 1)) }
    /^requests: / { good = $8; failed = $10 }
    /^status codes: / { known = 1 }
    /^ +min +max / { for (i = 1; i <= NF; i++) column[$i] = i }
    /^(time for )?request *: / {      # "time for request" before 1.70
      sub(/^[^:]*: */, ""); longest = seconds($column["max"]); mean = seconds($column["mean"]); timed = 1
    }
    END {
      if (!known || !elapsed || !timed) exit 1
      printf "%d %d %.6f %.6f %.6f\n", good, failed, elapsed, longest, mean
    }' "$1" |
    lib_jq load 'h2load($times; $broken)' -Rcse --slurpfile times <(h2load_times "${2-}") \
      --argjson broken "$(h2load_broken "${3-}")" 2>/dev/null ||
    die "$1 is not the complete output of h2load"
}

# A line of the log: begin, status (-1: failed) and duration in us.
h2load_times() { # <log>: of good answers, s, the shortest first
  [[ ! -f $1 ]] || awk '$2 >= 0 && $2 < 400 { printf "%.6f\n", $3 / 1e6 }' "$1" | sort -g
}

h2load_broken() { # <what h2load-end.so said>: connections
  local line
  line=$(sed -n 's/^broken: //p' "$1" 2>/dev/null) || true
  printf '%s\n' "${line:-0}"
}
