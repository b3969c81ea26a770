# SPDX-License-Identifier: Apache-2.0
# Why one vhost waits or is refused: causes for programs, sentences for people.

include "ctl";

def others($v): [.vhosts[] | select(.name != $v.name and .running + .waiting > 0)];
def many(n; word): "\(n) \(word)\(if n == 1 then "" else "s" end)";

# The first that applies is what stands in its way now.
def capped($v): $v.running + $v.waiting > 0 and $v.cpu > 0 and $v.cpu_now_permille >= $v.cpu * 9;
def causes($v; $free): if $v.mode == "dryrun" then ["dryrun"] else [
  (select($v.concurrency > 0 and $v.running >= $v.concurrency) | "concurrency"),
  (select($v.waiting > 0 and $v.waiting >= $v.queue) | "queue"),
  (select(capped($v)) | "cpu"),
  (select($v.waiting > 0 and $free <= 0 and (capped($v) | not)) | "slots"),
  (select($v.waiting > 0 and $free > 0 and $v.running >= 4 * $free) | "most") ] end;

# Whose the slots are, and what that is for.
def slots_say($v; $all): (others($v)) as $others | ([.vhosts[].cpu_now_permille] | add) as $busy
  | "All \(.slots) slots of the server are taken: \($v.running) by it, \($all - $v.running) by others. "
  + (if $others == [] then "Nobody else wants any. "
     else "Its weight \($v.weight) beside those of \(many($others | length; "busy vhost")) makes its share \(100 * $v.weight / ($v.weight + ([$others[].weight] | add)) | round) % of the CPU time. Just now it had \($v.cpu_now_permille | percent) % of a processor, all together \($busy | percent) %. Raise its weight, or find who takes the rest: vhostlimitctl top. " end)
  + (if $busy < .processors * 500 then "The slots are held by requests that use little CPU time: if VhostLimitSlots is a number, raise it; auto does so by itself."
     else "The processors are busy: cheaper pages help, more slots do not." end);

def says($v; $free; $all): {
  dryrun: "It has DryRun, so nothing of it is delayed or refused: since the start \(many($v.would_queue; "request")) would have waited and \($v.would_refuse) would have been refused.",
  concurrency: "As many run as may: \($v.running) of VhostLimitConcurrency \($v.concurrency). The next one waits until one ends\(if $v.queue == 0 then ", or rather is refused, as VhostLimitQueue is 0" else "" end). Raise concurrency, or make its requests quicker\(if $v.service_us > 0 then " (they take \($v.service_us | ms) ms)" else "" end).",
  queue: "Its queue is full: \($v.waiting) wait, VhostLimitQueue is \($v.queue). \(many($v.deferred; "connection")) wait\(if $v.deferred == 1 then "s" else "" end) beyond it, and \(if $v.deferred == 1 then "is" else "are" end) refused unless a place comes free in time.",
  cpu: "It has used up its CPU cap: \($v.cpu_now_permille | percent) % of \($v.cpu) %. What runs is slowed down by it, and the next one's turn comes as time passes; raise cpu to give it more.",
  slots: slots_say($v; $all),
  most: "It has \($v.running) of the server's \(.slots) slots, as many as one site gets: what is left, \($free), is for others. Its program hangs, or its clients do not take their answers, if the processors are idle; VhostLimitSlots auto adds slots then, as long as there are threads." };

def now($v): if $v.running + $v.waiting == 0 then "Nothing of it runs or waits now."
  else "\(many($v.running; "request")) of it \(if $v.running == 1 then "runs" else "run" end) and \(if $v.waiting == 0 then "none waits" elif $v.waiting == 1 then "1 waits" else "\($v.waiting) wait" end) now." end;
def way($v; $causes): select($causes == [] and $v.waiting > 0)
  | "Nothing stands in its way: its turn comes at once, or as soon as a child has a thread free for it; one site gets four fifths of a child's.";
def free_way($v; $causes): select($causes == [] and $v.waiting == 0)
  | "Nothing stands in its way: who comes now is let in.";
# Without a cause here a slow site is slow by itself.
def slow($v; $causes): select($causes == [] and $v.running > 0 and $v.waiting == 0)
  | if $v.service_us > 0 then
      "If it is slow, that is not for want of its turn: its requests take \($v.service_us | ms) ms, \([$v.charged_us / $v.requests, $v.service_us] | min | ms) ms of it charged as CPU time. Look at its program, its database, its clients."
    else "If it is slow, that is not for want of its turn: none of its requests has ended yet. Look at its program, its database, its clients." end;
def limited($v): select($v.limited_s > 0) | "It has been limited for \($v.limited_s) s"
  + if $v.waiting == 0 then ", and is so until ten seconds have passed in which nobody waited for long or was refused." else "." end;
def reasons($v): [
  (select($v.refused_concurrency > 0) | "\($v.refused_concurrency) because as many ran as may"),
  (select($v.refused_queue > 0) | "\($v.refused_queue) because the queue was full"),
  (select($v.refused_timeout > 0) | "\($v.refused_timeout) because of too long a wait") ];
def refusals($v): select($v.refused > 0)
  | "Since the start \(many($v.refused; "request")) of it had to be refused: \(reasons($v) | join(", ")).";
def waits($v): select($v.queued > 0)
  | "Of \(many($v.requests; "request")) let in, \($v.queued) had to wait; 99 % waited no longer than \($v.wait_p99_us | ms) ms.";
def changed($v): $v.overridden | to_entries[]
  | "Its \(.key) is \($v[.key]) and not \(.value) as configured: it was set by vhostlimitctl.";

def made($name): ([.vhosts[] | select(.name == $name)] | .[0]) as $v | sum("running") as $all
  | (.slots - $all) as $free | causes($v; $free) as $causes | says($v; $free; $all) as $says
  | { vhost: $v.name, state: $v.state, causes: $causes,
      sentences: [now($v), $says[$causes[]], way($v; $causes), free_way($v; $causes), slow($v; $causes), limited($v), waits($v), refusals($v), changed($v)] };

def text: "\(.vhost | plain):", .sentences[];
