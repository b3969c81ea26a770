# SPDX-License-Identifier: Apache-2.0
# The server's document as text.  Names come from a configuration: what a terminal
# might take for a command is not printed.

def plain: tostring | if test("[^ -~]") then gsub("[^ -~]"; "?") else . end;
def cells: map(tostring) | join("\u001f");
def ms: . / 100 | round / 10;
def percent: . / 10;

# A limit, with a star when it is not as configured.
def limit(key; none): (if .[key] == 0 then none else .[key] | tostring end)
  + (if .overridden[key] != null then "*" else "" end);

def row: [(.name | plain), (if .limited_s > 0 then "limited" else .state end), .mode, .running, .waiting, .requests, .queued,
          .refused, (.cpu_now_permille | percent), (.wait_p99_us | ms), limit("weight"; ""), limit("concurrency"; "0"),
          limit("queue"; "0"), limit("cpu"; "0")];
def heading: ["VHOST", "STATE", "MODE", "RUN", "WAIT", "REQUESTS", "QUEUED", "REFUSED", "CPU%", "P99ms", "WEIGHT",
              "CONC", "QUEUE", "CAP%"];
def table: heading, (.vhosts[] | row) | cells;

def seconds: . / 1000000;
def details: .vhosts[0] as $v
  | $v | to_entries[] | select(.key != "overridden")
  | "\(.key): \(.value | plain)"
    + (.key as $key | $v.overridden[$key] | if . != null then " (configured: \(.))" else "" end);

def limits: .vhosts[0]
  | "\(.name | plain): " + (["weight", "concurrency", "queue", "cpu"] as $keys | . as $v
  | [$keys[] | . as $key | "\($key) \($v[$key])\(if $key == "cpu" then "%" else "" end)"
     + if $v.overridden[$key] != null then " (configured: \($v.overridden[$key]))" else "" end] | join(", "));

# For top: rows with a rate, in order; previous is an earlier document, or null.
def rates(previous): (previous // . | [.vhosts[] | { key: .name, value: .requests }] | from_entries) as $earlier
  | ((.now_us - (previous.now_us // .now_us)) / 1000000) as $time
  | .vhosts |= map(.rate = if $time > 0 then ((.requests - ($earlier[.name] // .requests)) / $time | round) else 0 end);
def order(by):
  if by == "name" then .vhosts |= sort_by(.name)
  else .vhosts |= sort_by(-({ cpu: .cpu_now_permille, running: .running, waiting: .waiting, refused: .refused,
                              rate: .rate }[by]), -.running, -.waiting, .name) end;
def sum(key): [.vhosts[][key]] | add // 0;
def clock: [. / 3600 % 24, . / 60 % 60, . % 60] | map(floor | tostring | if length < 2 then "0" + . else . end)
  | join(":");
def top_summary:
  "\(.module) \(.mpm), up \(.uptime_s / 86400 | floor) d \(.uptime_s | clock), \(.children) children, \(.workers) workers, cgroup \(.cgroup.backend)",
  "\(.vhosts | length) vhosts, \([.vhosts[] | select(.limited_s > 0)] | length) limited; \(sum("running")) running on \(.slots) slots, \(sum("waiting")) waiting; CPU \(sum("cpu_now_permille") | percent) % of \(.processors * 100) %";
def top_table(most): (heading | .[5] = "REQ/s"), (.vhosts[:most][] | .rate as $rate | row | .[5] = $rate) | cells;
def top(most): top_summary, "", top_table(most);
