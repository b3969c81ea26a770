# SPDX-License-Identifier: Apache-2.0
# How many slots and workers the measured load asks for.

include "ctl";

# Erlang's loss formula by its recursion: the part of requests that find all of n
# slots taken when so many erlangs are offered.  Erlang's C from it: the part that
# has to wait, when they may.
def erlang_b(n; offered): reduce range(1; n + 1) as $k (1; offered * . / ($k + offered * .));
def erlang_c(n; offered): if offered >= n then 1 else erlang_b(n; offered) as $b
  | n * $b / (n - offered * (1 - $b)) end;
def least(offered; part): first(range(1; 20000) | select(erlang_b(.; offered) <= part)) // null;

def total(key): [.vhosts[][key]] | add // 0;
def part: 10000 * . | round / 10000;
def up_to(step): (. / step | ceil) * step;

# Who spends c of its time s on a processor needs s/c slots to keep one busy.
def slots($cpu; $busy): [8 * .processors, (.processors * (if $cpu > 0 then $busy / $cpu else 1 end) | ceil)] | max;

def made($before; $seconds): $before as $b | . as $now
  | (total("requests") - ($b | total("requests"))) as $n
  | ((total("busy_us") - ($b | total("busy_us"))) / 1000) as $busy
  | ((total("charged_us") - ($b | total("charged_us"))) / 1000) as $cpu
  | ([if $seconds > 0 then $seconds else .uptime_s end, 1] | max) as $time
  | { seconds: $time, processors, slots, workers, requests: $n }
  | if $n == 0 then . else ($now | slots($cpu; $busy)) as $slots | ($busy / 1000 / $time) as $offered
    | . + { per_second: ($n / $time | part), service_ms: ($busy / $n | part), cpu_ms: ($cpu / $n | part),
        most_per_second: (if $cpu > 0 then $now.processors * 1000 * $n / $cpu | round else null end),
        offered_erlangs: ($offered | part), slots_wanted: $slots, workers_wanted: ($slots * 2 | up_to(25)),
        loss_with_slots: (erlang_b($slots; $offered) | part), wait_with_slots: (erlang_c($slots; $offered) | part),
        slots_for_loss_1_percent: least($offered; 0.01) } end;

def text:
  if .requests == 0 then "No request came within \(.seconds) s: nothing to measure."
  else
  "\(.requests) requests in \(.seconds) s: \(.per_second) a second, each \(.service_ms) ms from admission to its end, \(.cpu_ms) ms of it on a processor.",
  "\(.processors) processors can do \(.most_per_second // "any number of") of these a second.",
  "Slots: \(.slots_wanted) keep the processors busy (now \(.slots)). VhostLimitSlots auto finds the number by itself and begins with 8 for each processor.",
  "Workers: MaxRequestWorkers \(.workers_wanted) (now \(.workers)): one for each slot, and as many for answers that are being sent, handshakes and threads that wait.",
  "Erlang: \(.offered_erlangs) slots are taken on average. With \(.slots_wanted) slots \(100 * .wait_with_slots | part) % of the requests would wait; without a queue, \(100 * .loss_with_slots | part) % would be refused; \(.slots_for_loss_1_percent // "too many") slots would refuse 1 %.",
  (select(.workers < .workers_wanted) | "MaxRequestWorkers is too small for this load.")
  end;
