# SPDX-License-Identifier: Apache-2.0
# The output of a load generator -> the record of a load, which load.sh describes.

def record($good; $bad; $elapsed):
  { transactions: $good, failures: $bad, elapsed_s: $elapsed, rate: ($good / $elapsed),
    availability: (if $good + $bad > 0 then 100 * $good / ($good + $bad) else 0 end),
    mean_s: null, longest_s: null, p50_s: null, p90_s: null, p99_s: null, p999_s: null, times: null };

def only: if length == 1 then .[0] else error("not one summary") end;

# 118 classes of response times: the middle of each, as a percentile, and the percent of
# the responses in it.  99 classes have 1 %, 9 have 0.1 % and 10 have 0.01 %.  wrk.lua has
# the same classes.
def classes: (range(99) | [. + 0.5, 1]), (range(9) | [99.05 + 0.1 * ., 0.1]), (range(10) | [99.905 + 0.01 * ., 0.01]);

# Response times [s, number of responses] of several clients -> a percentile of them all.
def percentile($part): sort_by(.[0]) | (map(.[1]) | add * $part) as $enough
  | reduce .[] as [$time, $n] ({ sum: 0, time: null };
      if .sum >= $enough - 1e-9 * $enough then . else { sum: (.sum + $n), time: $time } end) | .time;

# The line of JSON from wrk.lua.
def wrk: only
  | . as { $requests, $elapsed, $status, $connect, $read, $write, $timeout }
  | record($requests - $status; $status + $connect + $read + $write + $timeout; $elapsed)
    + if $requests == 0 then {} else { mean_s: .mean, longest_s: .longest, p50_s: .p50, p90_s: .p90, p99_s: .p99, p999_s: .p999,
        times: (.times // [] | map([.[0], .[1] * $requests / 100])) } end;

# Five numbers from h2load's summary, see h2load.sh.  $times: the response times from its
# log, the shortest first, or nothing.
def h2load($times; $broken): rtrimstr("\n") | split(" ") | map(tonumber) as [$good, $failed, $elapsed, $longest, $mean]
  | ($times | length) as $n
  | def at($part): if $n > 0 then $times[($n - 1) * $part | floor] else null end;
    record($good; $failed + $broken; $elapsed)
    + { mean_s: $mean, longest_s: $longest, p50_s: at(0.5), p90_s: at(0.9), p99_s: at(0.99), p999_s: at(0.999),
        times: (if $n > 0 then [classes as [$middle, $percent] | [at($middle / 100), $n * $percent / 100]] else null end) };

# The line of JSON from crowd.c.  "at" has the response times in the middle of each class.
def crowd: only | . as { $timed, $at }
  | record(.good; .refused + .broken + .gave_up; .elapsed)
    + { mean_s: .mean, longest_s: .longest, p50_s: .p50, p90_s: .p90, p99_s: .p99, p999_s: .p999,
        times: (if $at then [[$at, [classes]] | transpose[] | [.[0], $timed * .[1][1] / 100]] else null end),
        begun, timed: ($timed // 0), untimed: (.refused + .broken) };

# siege's JSON.  The last line of a summary is required: without it the file is truncated.
def siege_summary: only
  | def n(k): .[k] | if type == "number" then . else error("no " + k) end;
    n("shortest_transaction") as $last
  | { transactions: n("transactions"), failures: n("failed_transactions"),
      elapsed_s: n("elapsed_time"), rate: n("transaction_rate"),
      availability: n("availability"), mean_s: n("response_time"),
      longest_s: n("longest_transaction"), concurrency: n("concurrency") };

# siege prints its mean in hundredths of a second.  Its concurrency comes from the same
# sum of times and has the missing digits, where both agree.
def siege: (if .rate > 0 then .concurrency / .rate else 0 end) as $finer
  | record(.transactions; .failures; .elapsed_s) + .
  | if ($finer - .mean_s | fabs) <= 0.005 then .mean_s = $finer else . end
  | del(.concurrency);
