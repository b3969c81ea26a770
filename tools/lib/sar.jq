# SPDX-License-Identifier: Apache-2.0
# sadf's JSON -> means over a record, as sar prints them under "Average".  Values that a record
# does not have are null.

def samples: .sysstat.hosts[0].statistics | map(select(."cpu-load"));

# CPU and pressure are means over time, because samples may differ in length.  The rest is
# the mean of the samples.
def over_time(value): map({ t: .timestamp.interval, v: value } | select(.v != null))
  | (map(.t) | add) as $t | if length > 0 and $t > 0 then (map(.t * .v) | add) / $t else null end;
def mean(value): map(value | values) | if length > 0 then add / length else null end;

def cpus: map(."cpu-load"[].cpu) | unique - ["all"] | sort_by(tonumber);
def usage(which): map(.load = first(."cpu-load"[] | select(.cpu == which)))
  | { user: over_time(.load.user), nice: over_time(.load.nice), system: over_time(.load.system),
      iowait: over_time(.load.iowait), steal: over_time(.load.steal), idle: over_time(.load.idle) };

def memory: { used_kb: mean(.memory.memused), used_percent: mean(.memory."memused-percent") };
def queue: { running: mean(.queue."runq-sz"), blocked: mean(.queue.blocked), tasks: mean(.queue."plist-sz"),
             load_1: mean(.queue."ldavg-1"), load_5: mean(.queue."ldavg-5"), load_15: mean(.queue."ldavg-15") };
def pressure: { cpu: { some: over_time(.psi."psi-cpu".some_avg) },
                io: { some: over_time(.psi."psi-io".some_avg), full: over_time(.psi."psi-io".full_avg) },
                memory: { some: over_time(.psi."psi-mem".some_avg), full: over_time(.psi."psi-mem".full_avg) } };

def where_there: if all(.. | scalars; . == null) then null else . end;

# The mean of several CPUs; names are separated by commas.
def usage_of(cpus): (cpus | split(",")) as $names
  | [usage($names[])] as $each
  | $each[0] | with_entries(.key as $key | .value = ([$each[][$key] | values] | if length > 0 then add / length else null end));

# For bench.sh: the CPUs of the server and of the clients, over the run and in each
# sample.  A sample is still if all of these CPUs were idle.
def run(server; clients):
  def busy: .user += .nice | del(.nice) | .busy = .user + .system;
  def is_still: (server + "," + clients | split(",")) as $cpus | all(."cpu-load"[] | select(.cpu | IN($cpus[])); .idle >= 90);
  samples | map(select(.memory))
  | { samples: length, interval_s: .[0].timestamp.interval,
      gap_s: ((map(.timestamp.interval) | max) - (map(.timestamp.interval) | min)),
      cpu: { server: (usage_of(server) | busy), clients: (usage_of(clients) | busy), all: (usage("all") | busy) },
      idle: map([."cpu-load"[] | select(.cpu | IN(server | split(",")[])).idle] | add / length),
      still: map(is_still),
      memory: memory }
  | if .cpu.server.idle == null then error("no samples") else . end;

def summary(each_cpu):
  .sysstat.hosts[0] as $host | samples
  | if length > 0 then . else error("no samples") end
  | { host: $host.nodename, system: "\($host.sysname) \($host.release)", cpus: $host."number-of-cpus",
      from: "\(.[0].timestamp | "\(.date) \(.time)")", to: "\(.[-1].timestamp | "\(.date) \(.time)")",
      samples: length, seconds: (map(.timestamp.interval) | add),
      cpu: ([(["all"] + if each_cpu then cpus else [] end)[] as $cpu | { key: $cpu, value: usage($cpu) }] | from_entries),
      memory: (memory | where_there), queue: (queue | where_there), pressure: (pressure | where_there) };
