# SPDX-License-Identifier: Apache-2.0
# The text of the report, from result.json.

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
def gigabytes: (. / 1048576 | fixed(2)) + " GB";

def facts:
  .machine as $m | .options as $o |
  "noisy neighbour: \($o.users)",
  "machine:   \($m.cpus) CPU (\($m.cpu)), \($m.memory_kb | gigabytes), \($m.system), Linux \($m.kernel), cgroups \($m.cgroup)",
  "server:    \($m.httpd), MPM \($o.mpm), MaxRequestWorkers \($o.workers); \($m.php), \($o.children) children",
  "clients:   \($o.load), \(if $o.keepalive then "keep-alive" else "Connection: close" end), \($o.seconds) s a run",
  (if $m.pinned
   then "pinning:   server on CPU \($m.server_cpus), clients on CPU \($m.client_cpus)"
   else "pinning:   none, server and clients share the only CPU: the figures say little" end),
  (if any(.runs[]; .target == "vhostlimit") then "module:    \($o.configuration)" else empty end),
  "counted:   transactions are answers below 400; any other answer (a refusal with 503 too) and every broken connection is a failure";

def of(page): [.runs[] | select(.page == page)];
def each(f): [.[] | f];
def per_site(name; f): [name] + [.[] | .sites[] | f];
def per_run(name; f): [name] + [.[] | f, ""];

def rows:
  of($page)
  | (per_run("\($page) page"; .title),
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
       per_site("response time, 99 %"; .p99_s | seconds) else empty end),
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
     per_run("all CPUs, idle"; .sar.cpu.all.idle | percent),
     per_run("memory used"; .sar.memory.used_kb | gigabytes),
     per_run("  of all"; .sar.memory.used_percent | percent))
  | map(tostring) | join("\u001f");

def limit(page):
  [.runs[] | select(.page == page and (.server_cpu_limited | not)) | .title]
  | if length > 0
    then " The server's CPU was less than 90 % busy on \(join(" and ")): the load generator was the limit there, or a queue."
    else " The server's CPU was the limit (more than 90 % busy)." end;

def conclusion:
  . as $all
  | .conclusion | group_by(.page) | sort_by(.[0].page != "static") | .[]
  | .[0].page as $page
  | if .[0].half_of_plain == null
    then "\($page): the victim got " + (map("\(.victim_rate | fixed(1))/s on \(.title)") | join(", ")) + "."
    else "\($page): of the \(.[0].half_of_plain | fixed(1))/s that are half of plain Apache's total, the victim got "
      + (map("\(.fraction | fixed(2)) on \(.title)") | join(", ")) + "."
    end
  | . + ($all | limit($page));
