# SPDX-License-Identifier: Apache-2.0
# Disturbances by the machine, because of which a run does not count.  Each reason has a
# kind and a sentence.  docs/design/002-toolkit.md explains the bounds.

def steal_most: 10;             # percent of the CPU time of a side
def others_most: 10;            # percent of the CPU time that processes of others use
def server_idle_most: 30;       # percent, while
def clients_idle_least: 10;     # the clients' CPUs have less than this left
def still: 90;                  # percent idle: a CPU that does nothing
def still_part: 0.1;            # of a run's seconds
def outlier_part: 0.2;          # of the median rate of the same target, page and scene

def one_decimal: . * 10 | round / 10 | tostring | if test("[.]") then . else . + ".0" end;

# The disturbances of a run from trial.jq.  If the server's CPU may be idle (test_idle),
# only steal, other processes and gaps are judged.
def disturbances(busy):
  (select(.sar) | .sar.cpu.server.steal | select(. > steal_most)
    | { kind: "steal", why: "\(one_decimal) % of the server's CPU time was steal" }),
  (.client_cpu[]? | select(.steal > steal_most)
    | { kind: "steal", why: "\(.steal | one_decimal) % of the CPU time of \(.name) was steal" }),
  # Threads of the kernel remove the namespaces that bubblewrap makes for each request.
  (select(.target != "bubblewrap") | .others_cpu | select(. != null and . > others_most)
    | { kind: "others", why: "other processes used \(one_decimal) % of the CPU time" }),
  (select(.sar) | .sar.gap_s | select(. >= 2)
    | { kind: "gap", why: "the machine stalled for \(.) s" }),
  (select(busy and .sar) | .sar.cpu.server.idle as $idle | select($idle > server_idle_most)
    | .client_cpu[]? | select(.idle < clients_idle_least)
    | { kind: "starved",
        why: "the CPUs of \(.name) were full while the server's were \($idle | one_decimal) % idle" }),
  (select(busy and .sar and (.sar.still | length) > 2) | .sar.still[1:-1]
    | { all: length, still: (map(select(.)) | length) } | select(.still > 0 and .still >= still_part * .all)
    | { kind: "stalled", why: "server and clients were idle in \(.still) of \(.all) seconds" });

def median_rate: map(.total.rate) | sort | length as $n
  | (.[($n - 1) / 2 | floor] + .[$n / 2 | floor]) / 2;

# Of all runs: [index, reason] of each that is far slower than others of the same target,
# page and scene.  With fewer than three it is unknown which one is wrong.
def outliers:
  [range(length) as $i | .[$i] + { index: $i }] | group_by([.page, .target, .scene])[] | select(length >= 3)
  | median_rate as $median | .[] | select(.total.rate < outlier_part * $median)
  | [.index, { kind: "outlier",
      why: "\(.total.rate | one_decimal) responses a second; the median of the same runs is \($median | one_decimal)" }];
