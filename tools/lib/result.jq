# SPDX-License-Identifier: Apache-2.0
# Parts of result.json, and of the JSON of a run, from values that the shell passes with
# --arg and --argjson.  Most keys are the names of the arguments.

def with_numbers(keys): reduce keys as $key (.; .[$key] |= tonumber);

# ---- a run -----------------------------------------------------------------------

def about: $ARGS.named | with_numbers("repetition", "workers", "seconds", "server_cpus")
  | .capacity |= (if . == "" then null else tonumber end) | .keepalive |= (. == "1");

# Two lines for each load, its parameters and the generator's record -> the loads.
def clients: $ARGS.named as { $run_began }
  | inputs | split(" ") as [$role, $client, $site, $users, $page, $began, $length]
  | input | fromjson
  | (($began | tonumber) - ($run_began | tonumber)) as $from
  | ($length | tonumber) as $seconds
  | { $role, client: ($client | tonumber), $site, users: ($users | tonumber), $page, $seconds,
      from_s: $from, to_s: ($from + $seconds) } + . + { $seconds };

# A line of CPU times: the time of day, all of PHP-FPM, the sampler, the groups of the sites,
# the processes that serve one site only.
def by_site: to_entries | map({ key: "site\(.key + 1)", value }) | from_entries;
def usage: split(" ") | map(fromjson) | .[3:] as $of | ($of | length / 2) as $n
  | { at: .[0], pool: .[1], sampler: .[2], sites: ($of[:$n] | by_site), backends: ($of[$n:] | by_site) };

# Of a fleet: a sample of a server's status page; a line of its meter, see trial-fleet.sh;
# a line of its events.
def fleet_sample($web): { at: now, $web, state: .fleet, lapsed: .fleet_lapsed, sites: ([.vhosts[]
  | { key: (.name | split(".")[0]), value: { requests, charged_us } }] | from_entries) };
def fleet_meter: split(" ") | map(fromjson) | { at: .[0], store: { in: .[1], out: .[2] },
  webs: (.[3:] | [range(0; length; 2) as $i | { cpu_us: .[$i], daemon_us: .[$i + 1] }]) };
def fleet_event: split(" ") | { at: (.[0] | tonumber), what: .[1] };

# A sample of the status page.
def sample: { at: now, slots, sites: [.vhosts[]
  | { key: (.name | split(".")[0]), value: { requests, waiting, slots: (.runnable_permille // 0 | . / 1000), cpu_us, backend_us, charged_us } }] | from_entries };

# Ticks of the CPUs, all and busy, of all processes and of our own, at the beginning and at the end ->
# percent that other processes used at most, or null.  Some of the processes use other CPUs, and busy
# CPUs showed more than all processes together, so the lower one counts.
def others: split(" ") - [""] | map(tonumber) as [$all0, $busy0, $used0, $ours0, $all1, $busy1, $used1, $ours1]
  | if length < 8 or $all1 <= $all0 then null
    else [0, 100 * (([$busy1 - $busy0, $used1 - $used0] | min) - ($ours1 - $ours0)) / ($all1 - $all0)] | max end;

# Ticks of all, idle and stolen CPU time of a client over a run.
def client_cpu: $ARGS.named.name as $name | $ARGS.positional | map(tonumber) as [$all, $idle, $steal]
  | { name: $name, idle: (100 * $idle / $all), steal: (100 * $steal / $all), busy: (100 * ($all - $idle - $steal) / $all) };

# ---- the result ------------------------------------------------------------------

# A void run, without the parts for figures, which are in its file.
def void: { file: (input_filename | split("/")[-1]), page, target, title, scene, repetition, rate: .total.rate, noise,
  cpu: (.sar.cpu? // null), client_cpu };

# From text with a line for each one.
def lines: split("\n") | map(select(. != ""));
def missing: lines | map(split(" ") | { repetition: (.[0] | tonumber), page: .[1], target: .[2], scene: .[3] });
def tries: lines | map(split(" ") | { page: .[0], workers: (.[1] | tonumber), rate: (.[2] | tonumber) });

# The arguments after --args are the sentences about lost runs.
def options: $ARGS.named | with_numbers("seconds", "repeat", "workers", "children") | .keepalive |= (. == "1")
  | .tuning |= tries | .missing |= missing | .lost = $ARGS.positional;

def machine: $ARGS.named | with_numbers("cpus", "memory_kb") | .pinned = (.server_cpus != .client_cpus);

def build: $ARGS.named | .commit |= (if . == "" then null else . end)
  | .dirty |= if $ARGS.named.commit == "" then null else . != "" end;

# The argument is a filter of the array of runs, see rows.sh.
def result(rows):
  { schema: 2, finished: (now | todate), complete: ($ARGS.named.complete == "yes"), runs: .,
    rows: rows } + ($ARGS.named | del(.complete, .row_texts));
