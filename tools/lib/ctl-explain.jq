# SPDX-License-Identifier: Apache-2.0
# Why one vhost waits or is refused: causes for programs, sentences for people.

include "ctl";

def others($v): [.vhosts[] | select(.name != $v.name and .running + .waiting > 0)];
def many(n; word): "\(n) \(word)\(if n == 1 then "" else "s" end)";

# The first that applies is what stands in its way now.
def causes($v; $free): if $v.mode == "dryrun" then ["dryrun"] else [
  (select($v.concurrency > 0 and $v.running >= $v.concurrency) | "concurrency"),
  (select($v.waiting > 0 and $v.waiting >= $v.queue) | "queue"),
  (select($v.waiting > 0 and $v.cpu > 0 and $v.cpu_now_permille >= $v.cpu * 9) | "cpu"),
  (select($v.waiting > 0 and $free <= 0) | "slots") ] end;

def says($v; $free; $all): {
  dryrun: "It has DryRun, so nothing of it is delayed or refused: since the start \(many($v.would_queue; "request")) would have waited and \($v.would_refuse) would have been refused.",
  concurrency: "As many run as may: \($v.running) of VhostLimitConcurrency \($v.concurrency). The next one waits until one ends\(if $v.queue == 0 then ", or rather is refused, as VhostLimitQueue is 0" else "" end). Raise concurrency, or make its requests quicker\(if $v.service_us > 0 then " (they take \($v.service_us | ms) ms)" else "" end).",
  queue: "Its queue is full: \($v.waiting) wait, VhostLimitQueue is \($v.queue). Whoever comes now is refused.",
  cpu: "It has used up its CPU cap: \($v.cpu_now_permille | percent) % of \($v.cpu) %. Its turn comes as time passes; raise cpu to give it more.",
  slots: "All \(.slots) slots of the server are taken: \($v.running) by it, \($all - $v.running) by others. Its weight \($v.weight) beside those of \(many(others($v) | length; "busy vhost")) makes its share \(100 * $v.weight / ($v.weight + ([others($v)[].weight] | add // 0)) | round) % of the CPU time, of which it uses \($v.cpu_now_permille | percent) % of a processor. Raise its weight, or find who takes the rest: vhostlimitctl top." };

def now($v): if $v.running + $v.waiting == 0 then "Nothing of it runs or waits now."
  else "\(many($v.running; "request")) of it \(if $v.running == 1 then "runs" else "run" end) and \($v.waiting) wait\(if $v.waiting == 1 then "s" else "" end) now." end;
def way($v; $causes): select($causes == [] and $v.waiting > 0)
  | "Nothing stands in its way: its turn comes at once, or as soon as a child has a thread free.";
def free_way($v; $causes): select($causes == [] and $v.waiting == 0)
  | "Nothing stands in its way: who comes now is let in.";
def limited($v): select($v.limited_s > 0) | "It has been limited for \($v.limited_s) s.";
def refusals($v): select($v.refused > 0)
  | "Since the start \($v.refused) were refused: \($v.refused_concurrency) because as many ran as may, \($v.refused_queue) because as many waited as may, \($v.refused_timeout) because they had waited too long, \($v.refused_threads) because they could wait only with a thread and none was left for it.";
def waits($v): select($v.queued > 0)
  | "Of \(many($v.requests; "request")) let in, \($v.queued) had to wait; 99 % waited no longer than \($v.wait_p99_us | ms) ms.";
def changed($v): $v.overridden | to_entries[]
  | "Its \(.key) is \($v[.key]) and not \(.value) as configured: it was set by vhostlimitctl.";

def made($name): ([.vhosts[] | select(.name == $name)] | .[0]) as $v | sum("running") as $all
  | (.slots - $all) as $free | causes($v; $free) as $causes | says($v; $free; $all) as $says
  | { vhost: $v.name, state: $v.state, causes: $causes,
      sentences: [now($v), $says[$causes[]], way($v; $causes), free_way($v; $causes), limited($v), waits($v), refusals($v), changed($v)] };

def text: "\(.vhost | plain):", .sentences[];
