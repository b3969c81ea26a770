# SPDX-License-Identifier: Apache-2.0
# Runs -> rows: the value in each repetition, median and range, and whether bar and goal
# are met.  First come the functions for the expressions in test-NAME.sh.

include "isolation";

def median: sort | length as $n
  | if $n == 0 then null else (.[($n - 1) / 2 | floor] + .[$n / 2 | floor]) / 2 end;

# A run of one repetition on one page: of the row's target, of plain Apache, of any target.
# Empty if there is none; the expression is then empty too.
def this(scene): .this[scene] // empty;
def this: this("-");
def plain(scene): .plain[scene] // empty;
def plain: plain("-");
def with(target; scene): .of[target][scene] // empty;

def ratio(a; b): a as $a | b as $b
  | if ($a | type) == "number" and ($b | type) == "number" and $b > 0 then $a / $b else empty end;

# Of a run.
def site(role): .sites[] | select(.role == role);
def load(role): first(.clients[] | select(.role == role));

# CPU time of a site in µs, of Apache's threads and its own pool, as the kernel counted it
# between the first and the last sample.  All loads run in that time.
def growth(value): [.[] | value | numbers] | select(length > 1) | .[-1] - .[0];
def cpu(role): site(role).site as $site
  | .samples | growth(.sites[$site] | select(.) | .cpu_us + .backend_us);
def cpu_share(role): cpu(role) / ([.sites[].role as $each | cpu($each)] | add);

# An estimate of the same for sites that share a pool and are loaded all the time.  A
# request costs what its page burns, an equal part of the rest of the pool's CPU time, and
# the CPU time of its thread in Apache.
def burns_us: .page | ltrimstr("burn") | tonumber * 1000;
def rest_us: (.usage | growth(.pool)) - ([.clients[] | .transactions * burns_us] | add)
  | [., 0] | max;
def thread_us(site): .samples | ratio(growth(.sites[site].cpu_us); growth(.sites[site].requests));
def pool_cpu(role): load(role) as $load
  | ratio(rest_us; [.clients[].transactions] | add) as $rest
  | $load.transactions * (($load | burns_us) + $rest + thread_us($load.site));
def pool_share(role): pool_cpu(role) / ([.clients[].role as $each | pool_cpu($each)] | add);

# CPU time in µs in a second, of the processes that serve the role's site only.
def backend_cpu(role): site(role).site as $site | .usage
  | ratio(growth(.backends[$site]); growth(.at));

# CPU time charged to a role's site / that of its back end as the kernel counted it.
def charged_of_used(role): site(role).site as $site
  | (.samples | ratio(growth(.sites[$site] | select(.) | .charged_us); growth(.at))) as $charged
  | ratio($charged; backend_cpu(role));

# CPU time charged to all sites for back ends / what the kernel counted. shared: they have one pool.
def charged_of_all(shared): (.samples | ratio(growth([.sites[].backend_us] | add); growth(.at))) as $charged
  | (.usage | ratio(growth((if shared then .pool else 0 end) + ([.backends[] | numbers] | add)); growth(.at))) as $used
  | ratio($charged; $used);

# The slots that a role's site held before the loads that begin last.
def slots_held(role): site(role).site as $site | (.clients | map(.from_s) | max) as $until
  | [.samples[] | select(.at < $until) | .sites[$site].slots | numbers] | last | values;

# Percent of one CPU that a site's group used in each interval of this length during its
# load, or in all of it if that is shorter.
def cpu_used(role; seconds): load(role) as $load
  | [.usage[] | select(.at >= $load.from_s and .at <= $load.to_s + 1)
      | { at, us: .sites[$load.site] } | select(.us)] as $all | select($all | length > 1)
  | ([seconds, $all[-1].at - $all[0].at] | min) as $length
  | $all[] as $from | first($all[] | select(.at >= $from.at + $length - 0.1))
  | (.us - $from.us) / (.at - $from.at) / 1e4;

# Seconds from the start of the last load until the site has 45 % of all admitted requests
# in each window of 0.2 s that begins in the following second.  The rest of the run if that
# does not happen.
def until_share(role): site(role).site as $site
  | (.clients | map(.from_s) | max) as $start | (.clients | map(.to_s) | max) as $stop
  | [.samples[] | select(.at >= $start and .at < $stop)
      | { at, mine: .sites[$site].requests, all: ([.sites[].requests] | add) }] as $samples
  | [$samples[] as $from | first($samples[] | select(.at >= $from.at + 0.2)) as $to
      | { at: $from.at, enough: ($to.all > $from.all
            and ($to.mine - $from.mine) >= 0.45 * ($to.all - $from.all)) }] as $windows
  | select($windows | length > 0)
  | first(($windows[] | .at as $t | select(all($windows[] | select(.at >= $t and .at < $t + 1); .enough)) | .at),
      $stop) - $start;

# Idle time of the server while the load runs, per cent.
def idle_in(role): load(role) as $load
  | [.sar.idle[] | select(.at > $load.from_s + 1 and .at <= $load.to_s) | .idle]
  | select(length > 0) | add / length;

# ---- of a fleet ------------------------------------------------------------------

# The part of the run in which all loads run, from so many seconds after the role's begins.
def fleet_from(role; $seconds): load(role).from_s + $seconds;
def fleet_to: .clients | map(.to_s) | min;

# CPU time that each server charged to each site, µs in a second, between two times.
def fleet_cpu($from; $to):
  [.fleet.samples | map(select(.at >= $from and .at <= $to)) | group_by(.web)[]
   | select(length > 1) | (.[0] as $a | .[-1] as $b
      | $b.sites | with_entries(.value = (.value.charged_us - $a.sites[.key].charged_us) / ($b.at - $a.at)))]
  | select(length > 0);

def fleet_rate(role; $from; $to): site(role).site as $site | fleet_cpu($from; $to) | map(.[$site]) | add;
def fleet_sum($from; $to): fleet_cpu($from; $to) | map(add) | add;

# The fair part of a role, between two times. It is that of two sites with equal weights that
# want all they can get, one of them on all servers: half of all CPU time, or all of the servers
# that the role's loads use, if that is less.
def fleet_fair(role; $from; $to): (.clients | map(select(.role == role) | .client)) as $webs
  | fleet_cpu($from; $to) | map(add) | add as $all
  | ratio([([to_entries[] | select(.key + 1 | IN($webs[])) | .value] | add), $all / 2] | min; $all);

# Percent of the fleet's CPU time by which a role's part is off its fair part.
def off_fair(role; $from; $to):
  100 * (ratio(fleet_rate(role; $from; $to); fleet_sum($from; $to)) - fleet_fair(role; $from; $to)) | fabs;
def fleet_due(role; $seconds): fleet_fair(role; fleet_from(role; $seconds); fleet_to);
def fleet_off(role; $seconds): off_fair(role; fleet_from(role; $seconds); fleet_to);
def fleet_off_most(role; $seconds): fleet_from(role; $seconds) as $from
  | [range(0; fleet_to - $from - 1; 0.5) as $second | off_fair(role; $from + $second; $from + $second + 1)]
  | select(length > 0) | max;

# Percent of one CPU that a role's site used on all servers; and what the servers used.
def fleet_used_by(role; $seconds): fleet_rate(role; fleet_from(role; $seconds); fleet_to) / 1e4;
def fleet_kernel(role; $seconds): fleet_from(role; $seconds) as $from | fleet_to as $to
  | [.fleet.meter[] | select(.at >= $from - 0.1 and .at <= $to + 0.1)] | select(length > 1)
  | [range(.[0].webs | length) as $web | growth(.webs[$web].cpu_us)] as $used
  | ($used | add) / (.[-1].at - .[0].at) / 1e4;

# Seconds from an event until the state of every server is, or is not, that its leases hold.
# The rest of the run if that does not happen. At least one server must have had the other
# state, or the event had no effect and there is no value.
def until_state(event; wanted): first(.fleet.events[] | select(.what == event) | .at) as $at
  | fleet_to as $stop
  | [.fleet.samples | map(select(.at >= $at)) | group_by(.web)[]
     | [first((.[] | select(.state | wanted) | .at), $stop)] | .[0] - $at]
  | select(length > 0) | max;
def until_lapsed: until_state("killed"; . != "held");
def until_held: until_state("answers"; . == "held");

# Percent of one CPU that a daemon used, the most of all. Mbit/s between a daemon and the store.
def daemon_cpu: [.fleet.meter as $meter | range($meter[0].webs | length) as $web
  | $meter | growth(.webs[$web].daemon_us) / (.[-1].at - .[0].at) / 1e4] | select(length > 0) | max;
def daemon_traffic: (.fleet.meter[0].webs | length) as $webs
  | .fleet.meter | (growth(.store.in) + growth(.store.out)) * 8e-6 / (.[-1].at - .[0].at) / $webs;
def daemon_rows: .fleet.daemons | map(.rows) | min | values;

# ---- the rows ------------------------------------------------------------------

# Lines of text, see rows.sh -> objects, whose keys are those of the first parts of a line.
def described(keys): (keys | split(",")) as $keys
  | split("\n") | map(select(. != "") | split("\u001f") as $parts
      | reduce range($keys | length) as $i ({}; .[$keys[$i]] = $parts[$i]));

def in_order: reduce .[] as $x ([]; if index([$x]) then . else . + [$x] end);

def applies(where; page; keepalive; target): (where | split("@")) as [$of, $target]
  | ($of | split(":")) as [$page, $connection]
  | ($target == null or $target == target) and ($page == "all" or $page == page)
    and ($connection == null or $connection == (if keepalive then "keepalive" else "close" end));

# null if there is no value or no bar.  Rows with an interval are judged by its worse end,
# others by their median.
def met(bar): (bar | split(" ")) as [$sign, $number]
  | if $number == null or .median == null then null
    else ($number | tonumber) as $n | (.low // .median) as $low | (.high // .median) as $high
      | if $sign == ">=" then $low >= $n elif $sign == "<=" then $high <= $n
        elif $sign == ">" then .median > $n
        else all(.values[]; . == $n) end
    end;

def by_scene: map({ key: .scene, value: . }) | from_entries;

# The values of one page and target: for each repetition an array, one for each row.
def repetitions(page; target; values):
  [map(select(.page == page)) | group_by(.repetition)[]
   | { this: (map(select(.target == target)) | by_scene),
       plain: (map(select(.target == "plain")) | by_scene),
       of: (group_by(.target) | map({ key: .[0].target, value: by_scene }) | from_entries) } | values];

# Targets that others are compared with have no rows of their own, except those that name
# them.
def is_reference: startswith("plain");
def has_rows(where): (is_reference | not) or . == (where | split("@")[1]);

def rows($described; values): . as $runs
  | [(map(.page) | in_order[]) as $page
     | (map({ target, title }) | in_order[] | select(.target as $target | any($described[]; .where as $where | $target | has_rows($where)))) as $of
     | repetitions($page; $of.target; values) as $values
     | range($described | length) as $i
     | $described[$i] | select(applies(.where; $page; $runs[0].keepalive; $of.target))
     | select(.where as $where | $of.target | has_rows($where))
     | { page: $page, target: $of.target, title: $of.title, name, bar, goal, judged,
         values: [$values[][$i] | numbers] }
     | . + { median: (.values | median), min: (.values | min), max: (.values | max) }
     | if .judged == "interval" then . + (.values | interval) else . end
     | . + { bar_met: met(.bar), goal_met: met(.goal) }];

# Several objects of the same form -> one: each number is the median of theirs.
def medians:
  if any(.[]; type == "number") then map(numbers) | median
  elif all(.[]; type == "object") then . as $all
    | reduce (.[0] | keys_unsorted[]) as $key ({}; .[$key] = ($all | map(.[$key]) | medians))
  elif all(.[]; type == "array") then . as $all
    | [range(map(length) | min) as $i | $all | map(.[$i]) | medians]
  else .[0] end;
