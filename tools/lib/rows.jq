# SPDX-License-Identifier: Apache-2.0
# From runs to rows: a value in each repetition, its median and spread over
# them, and whether bar and goal were met.  First the words that test-NAME.sh
# writes values in.

def median: sort | length as $n
  | if $n == 0 then null else (.[($n - 1) / 2 | floor] + .[$n / 2 | floor]) / 2 end;

# The runs of one repetition on one page: of the target in question, of plain
# Apache, of any; nothing where there is none, and nothing comes of it.
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
def during(role): load(role) as $load
  | [.samples[] | select(.at >= $load.from_s and .at < $load.to_s)];

# CPU time of a site, us, of its threads and its own pool, as the kernel counted,
# between the first and the last sample: all loads run, and nothing else.
def growth(value): [.[] | value | numbers] | select(length > 1) | .[-1] - .[0];
def cpu(role): site(role).site as $site
  | .samples | growth(.sites[$site] | select(.) | .cpu_us + .backend_us);
def cpu_share(role): cpu(role) / ([.sites[].role as $each | cpu($each)] | add);

# The same of sites that share a pool and are loaded all the time, as far as it
# can be known from outside: a request takes what its page burns, what any
# request of the pool's takes besides (what is left of the pool's CPU time), and
# what its thread does.
def burns_us: .page | ltrimstr("burn") | tonumber * 1000;
def rest_us: (.usage | growth(.pool)) - ([.clients[] | .transactions * burns_us] | add)
  | [., 0] | max;
def thread_us(site): .samples | ratio(growth(.sites[site].cpu_us); growth(.sites[site].requests));
def pool_cpu(role): load(role) as $load
  | ratio(rest_us; [.clients[].transactions] | add) as $rest
  | $load.transactions * (($load | burns_us) + $rest + thread_us($load.site));
def pool_share(role): pool_cpu(role) / ([.clients[].role as $each | pool_cpu($each)] | add);

# Percent of one CPU that a site's group used in each stretch of so many seconds
# of its load, or in all if that is shorter.
def cpu_used(role; seconds): load(role) as $load
  | [.usage[] | select(.at >= $load.from_s and .at <= $load.to_s + 1)
      | { at, us: .sites[$load.site] } | select(.us)] as $all | select($all | length > 1)
  | ([seconds, $all[-1].at - $all[0].at] | min) as $length
  | $all[] as $from | first($all[] | select(.at >= $from.at + $length - 0.1))
  | (.us - $from.us) / (.at - $from.at) / 1e4;

# Seconds from the last load's start until the site has nine tenths of half of
# what all get: in each window of 0.2 s that begins in the second that follows.
# If that never comes, all there was.
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

# What `auto` settled at: the median of the second half of the load's time; how
# long until it stays within a quarter of that (or two); the server's idle time.
def slots_found(role): during(role) | .[length / 2 | floor:] | select(length > 0) | map(.slots) | median;
def until_slots(role): slots_found(role) as $found | load(role).from_s as $start
  | [during(role)[] | select((.slots - $found | fabs) > ([$found / 4, 2] | max)) | .at - $start] | max // 0;
def idle_in(role): load(role) as $load
  | [.sar.idle[] | select(.at > $load.from_s + 1 and .at <= $load.to_s) | .idle]
  | select(length > 0) | add / length;

# ---- the rows ------------------------------------------------------------------

def in_order: reduce .[] as $x ([]; if index([$x]) then . else . + [$x] end);

def applies(where; page; keepalive; target): (where | split("@")) as [$of, $target]
  | ($of | split(":")) as [$page, $connection]
  | ($target == null or $target == target) and ($page == "all" or $page == page)
    and ($connection == null or $connection == (if keepalive then "keepalive" else "close" end));

# null where there is nothing to judge, or nothing to judge it by
def met(bar): (bar | split(" ")) as [$sign, $number]
  | if $number == null or .median == null then null
    else ($number | tonumber) as $n
      | if $sign == ">=" then .median >= $n elif $sign == "<=" then .median <= $n
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

# What others are compared with has no rows of its own.
def is_reference: startswith("plain") or startswith("limits");

def rows($described; values): . as $runs
  | [(map(.page) | in_order[]) as $page
     | (map(select(.target | is_reference | not)) | map({ target, title }) | in_order[]) as $of
     | repetitions($page; $of.target; values) as $values
     | range($described | length) as $i
     | $described[$i] | select(applies(.where; $page; $runs[0].keepalive; $of.target))
     | { page: $page, target: $of.target, title: $of.title, name, bar, goal,
         values: [$values[][$i] | numbers] }
     | . + { median: (.values | median), min: (.values | min), max: (.values | max) }
     | . + { bar_met: met(.bar), goal_met: met(.goal) }];

# What was published beside what was measured, on each target.
def published($described; values): . as $runs
  | [(map(.page) | in_order[]) as $page
     | (map({ target, title }) | in_order[]) as $of
     | repetitions($page; $of.target; values) as $values
     | range($described | length) as $i
     | $described[$i] | select(applies(.where; $page; $runs[0].keepalive; $of.target))
     | { page: $page, target: $of.target, title: $of.title, name, unit, published,
         values: [$values[][$i] | numbers] }
     | select(.values | length > 0)
     | . + { median: (.values | median), min: (.values | min), max: (.values | max) }
     | .ratio = if .published != 0 then .median / .published else null end];

# Points [x, median, min, max] of each series, for each page.  A point is of one
# run, and the runs of all repetitions with the same x are one.
def figures($described; points): . as $runs
  | [(map(.page) | in_order[]) as $page
     | range($described | length) as $i
     | [$runs[] | select(.page == $page) | [points][$i] | select(.x != null and .y != null)] as $points
     | select($points | length > 0)
     | $described[$i] + { page: $page, series:
         [($points | map(.series) | in_order[]) as $name
          | { name: $name, points: [$points | map(select(.series == $name)) | group_by(.x)[]
              | [.[0].x, (map(.y) | median), (map(.y) | min), (map(.y) | max)]] }] }];

# Runs that are alike -> one: every number is the median of theirs.
def medians:
  if any(.[]; type == "number") then map(numbers) | median
  elif all(.[]; type == "object") then . as $all
    | reduce (.[0] | keys_unsorted[]) as $key ({}; .[$key] = ($all | map(.[$key]) | medians))
  elif all(.[]; type == "array") then . as $all
    | [range(map(length) | min) as $i | $all | map(.[$i]) | medians]
  else .[0] end;
