# SPDX-License-Identifier: Apache-2.0
# Two results side by side.  A difference is outside the noise if the ranges over the
# repetitions do not overlap.  With three repetitions on either side that happens by chance
# one time in ten; with fewer there is no verdict.

include "rows";
include "report";

def usable: type == "object" and .schema == 2 and (.test | type == "string") and (.complete | type == "boolean")
  and (.machine | type == "object") and (.options | type == "object") and (.rows | type == "array")
  and (.runs | type == "array" and length > 0
       and all(.[]; type == "object" and (.page | type == "string") and (.target | type == "string")
                    and (.sites | type == "array") and (.total.rate | type == "number")));

def quantities: { what: "all sites, per second", digits: 1, value: .total.rate },
  (.sites[] | . as $site | "\(.site) \(.role)" as $name
    | { what: "\($name): per second", digits: 1, value: .rate },
      { what: "\($name): mean response, ms", digits: 1, value: (.mean_s | values * 1000) },
      { what: "\($name): 99 %, ms", digits: 1, value: (.p99_s | values * 1000) },
      { what: "\($name): failures", digits: 0, value: .failures });

def of_runs: [.runs[] | "\(.page), \(.title)\(if .scene == "-" then "" else ", " + .scene end)" as $who
  | quantities | select(.value != null) | . + { who: $who }]
  | group_by([.who, .what]) | map({ who: .[0].who, what: .[0].what, digits: .[0].digits, values: map(.value) });
def of_rows: [.rows[] | select(.values | length > 0)
  | { who: "bars and goals", what: "\(.page), \(.title): \(.name)", digits: 3, values }];
def measured: (of_runs + of_rows) | map(. + { median: (.values | median), min: (.values | min), max: (.values | max) });

def noise($a; $b):
  if ([$a.values, $b.values] | map(length) | min) < 3 then (if $a.median == $b.median then "" else "too few runs to say" end)
  elif $b.min > $a.max then "more, outside the noise"
  elif $b.max < $a.min then "less, outside the noise"
  else "within the noise" end;

def spread: if .values | length > 1 then "\(.digits as $d | .min | fixed($d))..\(.digits as $d | .max | fixed($d))" else "" end;
def compared($a; $b):
  [$a.what, ($a.median | fixed($a.digits)), ($a | spread), ($b.median | fixed($b.digits)), ($b | spread),
   (if $a.median == 0 then (if $b.median == 0 then "1.000" else "-" end) else $b.median / $a.median | fixed(3) end), noise($a; $b)];

def about: "\(.test), \(.finished)\(if .complete then "" else ", interrupted" end): \(.options.load), \(.options.seconds) s a run, \(.runs | map(.repetition) | max | count("repetition")); \(.machine.cpus) CPU (\(.machine.cpu)), Linux \(.machine.kernel), \(.machine.httpd)";

def about_build: if .build then "   module \(.build | build_name); SHA-256 \(.build.module_sha256[:12])" else empty end;

def how_built: { source_sha256, configure, cflags, compiler };
def builds: map(.build // null)
  | if all(. == null) then empty
    elif any(. == null) then "One of the two results does not say which build of the module it measured."
    elif .[0].module_sha256 == .[1].module_sha256 then "Both measured the same build of the module."
    elif (map(how_built) | .[0] == .[1]) then "The modules are two builds of the same sources with the same compiler and flags."
    else "The results come from different builds of the module: " + ([
        (select(.[0].source_sha256 != .[1].source_sha256) | "the sources differ"),
        (select(.[0].compiler != .[1].compiler) | "the compilers differ"),
        (select((map([.configure, .cflags]) | .[0] != .[1])) | "the flags differ")] | join(", ")) + "."
    end;

def facts_of_both: "A:  \(.[0] | about)", (.[0] | about_build), "B:  \(.[1] | about)", (.[1] | about_build), builds;

def comparison: (.[0] | measured) as $a | (.[1] | measured) as $b
  | [.[0] | of_runs, of_rows | .[].who] | in_order as $whos
  | $whos[] as $who
  | [$a[] | select(.who == $who) as $mine | first($b[] | select(.who == $who and .what == $mine.what)) as $theirs | compared($mine; $theirs)]
  | select(length > 0)
  | [], [$who, "A", "range", "B", "range", "B / A", ""], .[]
  | join("\u001f");

def only_in_one: [.[] | [measured[].who] | in_order] as [$a, $b]
  | (($a - $b)[] | "only in A: \(.)"), (($b - $a)[] | "only in B: \(.)");
