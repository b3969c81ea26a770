# SPDX-License-Identifier: Apache-2.0
# The server's document as text.  Names come from a configuration: what a terminal
# might take for a command is not printed.

def plain: tostring | if test("[^ -~]") then gsub("[^ -~]"; "?") else . end;
def cells: map(tostring) | join("\u001f");
def ms: . / 100 | round / 10;
def percent: . / 10;

# Cells of a row, set apart by \x1f; a star at a limit that is not as configured.
def row_limits: if .overridden == {} then "\(.weight)\u001f\(.concurrency)\u001f\(.queue)\u001f\(.cpu)"
  else . as $v | ["weight", "concurrency", "queue", "cpu"]
    | map("\($v[.])\(if $v.overridden[.] != null then "*" else "" end)") | cells end;
def row: "\(.name | plain)\u001f\(if .limited_s > 0 then "limited" else .state end)\u001f\(.mode)\u001f\(.running)\u001f\(.waiting)\u001f\(.rate // .requests)\u001f\(.queued)\u001f\(.refused)\u001f\(.cpu_now_permille | percent)\u001f\(.wait_p99_us | ms)\u001f\(row_limits)";
def heading: ["VHOST", "STATE", "MODE", "RUN", "WAIT", "REQUESTS", "QUEUED", "REFUSED", "CPU%", "P99ms", "WEIGHT",
              "CONC", "QUEUE", "CAP%"];
def table: (heading | cells), (.vhosts[] | row);

def seconds: . / 1000000;
def details: .vhosts[0] as $v
  | $v | to_entries[] | select(.key != "overridden")
  | "\(.key): \(.value | plain)"
    + (.key as $key | $v.overridden[$key] | if . != null then " (configured: \(.))" else "" end);

def limits: .vhosts[0]
  | "\(.name | plain): " + (["weight", "concurrency", "queue", "cpu"] as $keys | . as $v
  | [$keys[] | . as $key | "\($key) \($v[$key])\(if $key == "cpu" then "%" else "" end)"
     + if $v.overridden[$key] != null then " (configured: \($v.overridden[$key]))" else "" end] | join(", "));

# For top: what is remembered until the next time, and rates since the last, which
# may be null.
def remembered: { now_us, requests: (reduce .vhosts[] as $v ({}; .[$v.name] = $v.requests)) };
def rates(previous): previous as $before | ((.now_us - ($before.now_us // .now_us)) / 1000000) as $time
  | .vhosts |= map(.rate = if $time > 0 then ((.requests - ($before.requests[.name] // .requests)) / $time | round) else 0 end);

# Of most nothing is to be told: they come last, in the configuration's order.
def order(by): if by == "name" then .vhosts |= sort_by(.name) else
  ({ cpu: "cpu_now_permille" }[by] // by) as $key
  | .vhosts |= (map(select(.[$key] + .running + .waiting > 0)) | sort_by(-.[$key], -.running, -.waiting, .name))
    + map(select(.[$key] + .running + .waiting == 0)) end;
def ordered(by; previous; most):
  if by == "rate" then rates(previous) | order(by) | .vhosts |= .[:most]
  else order(by) | .vhosts |= .[:most] | rates(previous) end;
def sum(key): [.vhosts[][key]] | add // 0;
def clock: [. / 3600 % 24, . / 60 % 60, . % 60] | map(floor | tostring | if length < 2 then "0" + . else . end)
  | join(":");
def top_summary: (.vhosts | map(select(.running + .waiting + .cpu_now_permille + .limited_s > 0))) as $busy |
  "\(.module) \(.mpm), up \(.uptime_s / 86400 | floor) d \(.uptime_s | clock), \(.children) children, \(.workers) workers, cgroup \(.cgroup.backend)",
  "\(.vhosts | length) vhosts, \([$busy[] | select(.limited_s > 0)] | length) limited; \([$busy[].running] | add // 0) running on \(.slots) slots, \([$busy[].waiting] | add // 0) waiting; CPU \([$busy[].cpu_now_permille] | add // 0 | percent) % of \(.processors * 100) %";
def top_table: (heading | .[5] = "REQ/s" | cells), (.vhosts[] | row);
def top(by; previous; most): top_summary, "", (ordered(by; previous; most) | top_table);
