# SPDX-License-Identifier: Apache-2.0
# Records of the loads of one run -> the run: per site, totals, Jain's index.
# Rates are transactions over the load's nominal length for all generators: siege's own
# clock starts late if it has to create many threads.

include "noise";
include "load";
include "result";

def total(k): map(.[k]) | add;
def since_begin: .at -= ($run_began | tonumber);
def waiting(name; $samples): name as $site |
  if $status == null then null
  else
    [$status.vhosts[] | select(.name | startswith($site + "."))][0] as $vhost
    | [$samples[].sites[$site].waiting] as $length
    | { p50_s: ($vhost.wait_p50_us / 1e6), p99_s: ($vhost.wait_p99_us / 1e6),
        queue_mean: (if ($length | length) > 0 then ($length | add / length) else null end),
        queue_most: ($length | max) }
  end;
# The generator's own figure for one client, a merged one for several clients.
def site_percentile(key; $part):
  if length == 1 then .[0][key] elif all(.[]; .times) then map(.times[]) | percentile($part) else null end;
def of_site(all; $samples):
  { site: .[0].site, role: .[0].role,
    users: total("users"), transactions: total("transactions"),
    rate: (map(.transactions / .seconds) | add),
    failures: total("failures"), share: (if all > 0 then total("transactions") / all else 0 end),
    availability: (total("transactions") as $good | total("failures") as $bad
      | if $good + $bad > 0 then 100 * $good / ($good + $bad) else 0 end),
    mean_s: (total("transactions") as $n
      | if $n > 0 and all(.[]; .mean_s) then (map(.mean_s * .transactions) | add) / $n else null end),
    longest_s: (map(.longest_s) | max),
    p50_s: site_percentile("p50_s"; 0.5), p90_s: site_percentile("p90_s"; 0.9),
    p99_s: site_percentile("p99_s"; 0.99), p999_s: site_percentile("p999_s"; 0.999),
    waiting: waiting(.[0].site; $samples) };
def jain: (add * add) / (length * (map(. * .) | add));

# From the array of loads.
def run: . as $clients | total("transactions") as $all
| [$samples[] | since_begin] as $samples
| (group_by([.site, .role]) | map(of_site($all; $samples))) as $sites
| $about
  + { clients: $clients, sites: $sites,
      total: { transactions: total("transactions"), rate: ($all / $about.seconds), failures: total("failures") },
      jain: (if $all > 0 then ($sites | map(.rate) | jain) else null end),
      server_cpu_limited: ($sar != null and $sar.cpu.server.idle < 10),
      slots: (if ($samples | length) > 0 then ($samples | map(.slots) | add / length) else null end),
      samples: $samples,
      usage: [$usage | lines[] | usage | since_begin],
      fleet: ($fleet | if . then (.samples, .meter, .events) |= map(since_begin) else . end),
      sar: ($sar | if . then .idle |= (to_entries | map({ at: ((.key + 1) * $sar.interval_s), idle: .value })) else . end),
      commands: ([$commands | splits("\n") | select(. != "")] | reduce .[] as $line ([]; if index([$line]) then . else . + [$line] end)),
      client_cpu: ($client_cpu // (if $sar then [$sar.cpu.clients + { name: "the clients" }] else [] end)),
      others_cpu: ($ticks | others),
      status: $status }
  | .noise = [disturbances($busy)];
