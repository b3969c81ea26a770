# SPDX-License-Identifier: Apache-2.0
# The text of the report, from result.json.  Figures of repeated runs are medians.

include "rows";

def fixed(digits):
  if . == null then "-"
  else (pow(10; digits)) as $p | ((. * $p | round) / $p | tostring) as $s
    | if digits == 0 then $s
      else ($s | if test("[.]") then . else . + "." end) as $d
        | $d + ("0" * (digits - ($d | sub(".*[.]"; "") | length)) // "")
      end
  end;
def percent: if . == null then "-" else fixed(1) + " %" end;
def seconds: if . == null then "-" elif . < 1 then (. * 1000 | fixed(0)) + " ms" else fixed(2) + " s" end;
def gigabytes: if . == null then "-" else (. / 1048576 | fixed(2)) + " GB" end;

def count(n): "\(.) \(n)\(if . == 1 then "" else "s" end)";

def users: .clients | group_by(.site)
  | map("\(map("\(.users)") | group_by(.) | map("\(if length > 1 then "\(length) x " else "" end)\(.[0])") | join(" + ")) on \(.[0].site) (\(.[0].role))")
  | join(", ");

# Of .build: the sources of the module, and how it was built.
def build_name: "\(.version), "
  + (if .commit == null then "not from a git checkout, sources \(.source_sha256[:12])"
     else "commit \(.commit[:12])" + (if .dirty then " with uncommitted changes, sources \(.source_sha256[:12])" else "" end) end)
  + "; \(.compiler), CFLAGS \(.cflags)" + (if .configure == "" then "" else ", configure \(.configure)" end);

# Disturbed runs: void ones, and those that count because of --keep-noisy.
def scene_name: if .scene == "-" then "" else ", " + .scene end;
def which_run: "\(.page) page, \(.title)\(scene_name), repetition \(.repetition)";
def why: map(.why) | join("; ");
def noise_facts:
  (.void // []) as $void | (.options.missing // []) as $missing | .runs as $runs
  | ($void | select(length > 0)
      | "void:      \(length) of \(length + ($runs | length)) runs were disturbed; no figure includes them:",
        (.[] | "void:      \(which_run), \(.rate | fixed(1))/s: \(.noise | why)")),
    ($runs[] | select(.noise // [] | length > 0)
      | "disturbed: \(which_run), \(.total.rate | fixed(1))/s: \(.noise | why); it counts because of --keep-noisy"),
    ($missing[] | "missing:   \(.page) page, \(.target)\(scene_name), repetition \(.repetition): no run of it counts"),
    (select(($missing | length) > 0 or ($void | length) > ($runs | length))
      | "noise:     this machine was too noisy: "
        + (if $runs == [] then "no run counts, there are no figures"
           else "the figures are of \($runs | length) of \($runs + $void | length) runs" end)),
    ($runs | select(length > 0) | map([.page, .target, .scene]) | group_by(.) | map(length) | min | select(. < 3)
      | "outliers:  not searched for; that needs three repetitions");

def measured_facts:
  .machine as $m | .options as $o |
  "\(.test): \(.summary)",
  (.runs | map({ scene, users: users }) | in_order[]
    | "users:     " + (if .scene == "-" then "" else .scene + ": " end) + .users),
  "machine:   \($m.cpus) CPU (\($m.cpu)), \($m.memory_kb | gigabytes), \($m.system), Linux \($m.kernel), cgroups \($m.cgroup)",
  "server:    \($m.httpd), MPM \($o.mpm), MaxRequestWorkers \($o.workers); \($m.php), \($o.children) children",
  (.build | values | "module:    \(build_name); SHA-256 \(.module_sha256)"),
  "clients:   \($o.load), \(.runs | map(.keepalive) | unique | if length > 1 then "kept and closed connections" elif .[0] then "keep-alive" else "Connection: close" end), \($o.seconds) s a run, \(.runs | map(.repetition) | max | count("repetition"))\(if .complete then "" else " of \($o.repeat), interrupted" end)",
  (([.runs[].fleet | values][0]) as $fleet | if $fleet then "servers:   \($fleet.meter[0].webs | length), each with a quota of CPU time"
       + (.runs | map(select(.fleet.quota) | { scene, quota: .fleet.quota }) | in_order | map("\(.scene): \(.quota) % of a CPU") | " (" + join(", ") + ")")
     else empty end),
  (if any(.runs[]; .fleet) then "pinning:   servers and daemons on every CPU, clients on CPU \($m.client_cpus)"
   elif $m.pinned
   then "pinning:   server on CPU \($m.server_cpus), clients on CPU \($m.client_cpus)"
   else "pinning:   none, server and clients share the only CPU: the figures are unreliable" end),
  (.runs | map(.sar.cpu.all.steal | numbers) | select(length > 0)
    | "steal:     \(median | percent) of the CPU time of a run (median), at most \(max | percent): taken by the host of this machine"),
  (.runs | map(.others_cpu | numbers) | select(length > 0)
    | "others:    \(median | percent) of the CPU time of a run (median), at most \(max | percent): used by other processes"),
  noise_facts,
  (.runs | map(select(.target | startswith("plain") | not) | "\(.title): \(.configuration)") | in_order[] | "with       \(.)"),
  ($o.tuning | group_by(.page)[]
    | "tried:     \(.[0].page) page on plain Apache with \(map("\(.workers) threads: \(.rate | fixed(0))/s") | join(", "))"),
  "counted:   a transaction is a response below 400; any other response (503 of a refusal too) and any broken connection is a failure";

def facts: if .runs == [] then
    "\(.test): \(.summary)",
    (.machine | "machine:   \(.cpus) CPU (\(.cpu)), \(.system), Linux \(.kernel)"),
    noise_facts
  else measured_facts end;

def pages: .runs | map(.page) | in_order[];

# One run for each target and scene.
def of(page): (.void // [] | map(select(.page == page))) as $void
  | [.runs[] | select(.page == page) | del(.samples, .usage, .fleet, .sar.idle, .sar.still, .status, .clients, .client_cpu, .commands, .noise)] as $runs
  | [$runs | map([.target, .scene]) | sort_by(.[0] != "plain") | in_order[] as $who
     | $runs | map(select([.target, .scene] == $who)) | length as $n | medians
     | .counted = $n | .void = ($void | map(select([.target, .scene] == $who)) | length)];
def per_site(name; f): [name] + [.[] | .sites[] | f];
def per_run(name; f): [name] + [.[] | { text: f, span: (.sites | length) }];

# A cell is a text, or an object with a text that spans several columns.
def table_rows($page):
  of($page)
  | (per_run("\($page) page"; .title),
     (if any(.[]; .scene != "-") then per_run(""; .scene) else empty end),
     per_run("MaxRequestWorkers"; .workers),
     (if any(.[]; .void > 0) then per_run("runs that count, and void ones"; "\(.counted), \(.void) void") else empty end),
     per_site(""; "\(.site) \(.role)"),
     per_site("users"; .users),
     per_site("transactions"; .transactions),
     per_site("transactions per second"; .rate | fixed(1)),
     per_site("share of the total"; .share * 100 | percent),
     per_site("availability"; .availability | fixed(2) + " %"),
     per_site("failures"; .failures),
     per_site("response time, mean"; .mean_s | seconds),
     (if any(.[].sites[]; .p99_s) then
       per_site("response time, median"; .p50_s | seconds),
       per_site("  90 %"; .p90_s | seconds),
       per_site("  99 %"; .p99_s | seconds),
       per_site("  99.9 %"; .p999_s | seconds) else empty end),
     per_site("response time, longest"; .longest_s | seconds),
     (if any(.[].sites[]; .waiting) then
       per_site("waited in the fair queue, median"; .waiting.p50_s | seconds),
       per_site("  99 %"; .waiting.p99_s | seconds),
       per_site("queue length, mean"; .waiting.queue_mean | fixed(0)),
       per_site("  most"; .waiting.queue_most | fixed(0)),
       per_run("slots, mean"; .slots | fixed(0)) else empty end),
     per_run("all sites, per second"; .total.rate | fixed(1)),
     per_run("Jain's index"; .jain | fixed(3)),
     per_run("server's CPU, user"; .sar.cpu.server.user | percent),
     per_run("  system"; .sar.cpu.server.system | percent),
     per_run("  iowait"; .sar.cpu.server.iowait | percent),
     per_run("  steal"; .sar.cpu.server.steal | percent),
     per_run("  idle"; .sar.cpu.server.idle | percent),
     (if all(.[]; .sar.cpu.clients?) then
       per_run("clients' CPU, steal"; .sar.cpu.clients.steal | percent),
       per_run("  idle"; .sar.cpu.clients.idle | percent)
      else per_run("all CPUs, idle"; .sar.cpu.all.idle | percent) end),
     per_run("memory used"; .sar.memory.used_kb | gigabytes),
     per_run("  of all"; .sar.memory.used_percent | percent));

def cells: join("\u001f");
def table($page): table_rows($page)
  | map(if type == "object" then .text, (range(1; .span) | "") else . end | tostring) | cells;

def value($row): if . == null then "-"
  else ($row.bar | split(" ")[2]) as $unit
    | if $unit == "s" then fixed(2) + " s" elif $unit == "%" then (if . < 1 then fixed(2) else fixed(1) end) + " %"
      elif $row.bar == "= 0" then fixed(0) else fixed(3) end
  end;

def verdict:
  if .median == null then "not measured"
  elif .bar_met == null then ""
  elif .bar_met | not then "missed"
  elif .goal_met then "met, and the goal"
  else "met" end;

def row_cells($several): . as $row
  | ["\(.page)\(if $several then ", " + .title else "" end): \(.name)", (.median | value($row)),
     (if (.values | length) > 1 then "\(.min | value($row) | split(" ")[0])..\(.max | value($row) | split(" ")[0])" else "" end),
     .bar, .goal, verdict];

def row_head: ["median of the repetitions", "value", "range", "bar", "goal"];
def row_table: .rows as $rows | ($rows | map(.target) | in_order | length > 1) as $several
  | [$rows[] | select((.judged // "median") == "median" or .bar != "") | row_cells($several)];

# Rows that are shown side by side: a line for each page and name, a column for each target.
def figure: (if fabs >= 100 then 0 elif fabs >= 10 then 1 else 2 end) as $digits | fixed($digits);
def beside_cell: if .median == null then "-"
  elif .judged == "beside" then (.median | figure) + (if (.values | length) > 1 then " (\(.min | figure) to \(.max | figure))" else "" end)
  elif .half == null then .mean | fixed(3)
  else "\(.mean | fixed(3)) ± \(.half | fixed(3))" end;
def beside_rows: [.rows // [] | .[] | select((.judged // "median") != "median")];
def beside_head: beside_rows as $rows | ($rows | map(.values | length) | max) as $n
  | [if $n == 1 then "one round" elif $rows[0].judged == "beside" then "median and range, \($n) rounds"
     else "mean and 95 % interval, \($n) rounds" end] + ($rows | map(.title) | in_order);
def beside_table: beside_rows as $rows | ($rows | map(.target) | in_order) as $targets
  | ($rows | map(.page) | in_order | length > 1) as $several
  | [$rows | map([.page, .name]) | in_order[] as $of
     | [(if $several then "\($of[0]), " else "" end) + $of[1]]
       + [$targets[] as $target | first($rows[] | select([.page, .name] == $of and .target == $target) | beside_cell) // "-"]];
# The same table in Markdown.
def markdown_row: "| " + join(" | ") + " |";
def markdown: select(beside_rows | length > 0)
  | (beside_head | markdown_row, (map("---") | markdown_row)), (beside_table[] | markdown_row);
def beside: select(beside_rows | length > 0) | beside_head, beside_table[] | cells;
def interval_notes: select(any(beside_rows[]; .judged == "interval")) | (beside_rows | map(.values | length) | max) as $n
  | "Intervals: Student's t over the rounds. A bar has to be met by the worse end of the interval.",
    (select($n < 10 or .options.length == "quick")
      | "These are not figures to publish: that needs ten rounds or more of full length; there were \($n)\(if .options.length == "quick" then " of --quick" else "" end).");

def rows:
  (select(row_table | length > 0) | row_head),
  row_table[]
  | cells;

def notes: select(any(.runs[]; .fleet) | not) | pages as $page | of($page)
  | map(select(.sar.cpu.server.idle >= 10) | .title + (if .scene == "-" then "" else ", " + .scene end)) | select(length > 0)
  | "\($page): the server's CPU was less than 90 % busy on \(join(" and ")): the load generators or a queue were the limit, not the server.";

# The whole report. Lines of cells follow a line that has the widths of their columns, see
# report_cells.
def widths($list): "\u001e" + $list;
def beside_text: select(beside_rows | length > 0) | widths("-44 16"), beside, widths(""), interval_notes, "";
def rows_text: widths("-58 8 16 8 8 -1"), rows;         # name, value, range, bar, goal, verdict
def text_report: facts, (pages as $page | widths(""), "", widths("-30 14"), table($page)), widths(""), "",
  beside_text, rows_text, widths(""), notes;

# ---- siege-summary.sh: rows of cells, from an array of summaries --------------------

# siege measures in steps of 10 ms.
def siege_time: if . == 0 then "< 10 ms" else seconds end;
def siege_table:
  ["file", "transactions", "failed", "availability", "rate", "response", "longest", "concurrency"],
  (.[] | [.file, "\(.transactions)", "\(.failures)", (.availability | fixed(2)) + " %", (.rate | fixed(2)) + "/s",
          (.mean_s | siege_time), (.longest_s | siege_time), (.concurrency | fixed(2))])
  | cells;
