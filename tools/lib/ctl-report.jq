# SPDX-License-Identifier: Apache-2.0
# What vhosts with DryRun would have met with.

include "ctl";

def part(n; all): if all == 0 then 0 else 1000 * n / all | round / 10 end;

def made: { since_s: .uptime_s, vhosts: [.vhosts[] | select(.mode == "dryrun")
  | { name, requests, would_queue, would_refuse, would_queue_percent: part(.would_queue; .requests),
      would_refuse_percent: part(.would_refuse; .requests), weight, concurrency, queue }] };

def line: "\(.name | plain): of \(.requests) requests \(.would_queue) (\(.would_queue_percent) %) would have waited and \(.would_refuse) (\(.would_refuse_percent) %) would have been refused.";
def text: if .vhosts == [] then "No vhost has VhostLimit DryRun." else (.vhosts[] | line), "Counted since \(.since_s) s ago; nothing of it was carried out." end;
