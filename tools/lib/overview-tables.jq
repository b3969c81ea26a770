# SPDX-License-Identifier: Apache-2.0
# The tables of README.md and docs/results.md in Markdown, from the result.json of
# "tools/bench.sh overview":
#
#   jq -r -L tools/lib --arg table readme -f tools/lib/overview-tables.jq result.json     # or: results
#
# docs/results/overview.json is result.json without samples and histograms:
#
#   jq -c 'del(.runs[] | (.samples, .usage, .status, .commands), (.clients[] | (.begun, .timed, .times, .untimed)))'

include "report";

def scenes: {"http1-close": "HTTP/1.1", "https-kept": "HTTPS kept", "http2": "HTTP/2"};
def pages: {static: "static", php: "PHP"};
def figures: ["victim, responses/s", "all sites, responses/s", "victim's share, %", "victim's 99th percentile, ms",
  "failed requests, %", "server's CPU time of a response, us"];

# 12597.4 as 12,597.
def thousands:
  round | tostring | if length > 4 then .[:-3] + "," + .[-3:] else . end;

# Three digits, or all of a larger number.
def short: if . >= 99.95 then thousands elif . >= 9.995 then fixed(1) else fixed(2) end;

def row($page; $target; $name): first(.rows[] | select(.page == $page and .target == $target and .name == $name));
# In the order of the first runs.
def targets: reduce .runs[] as $run ([]; if any(.[]; .target == $run.target) then . else . + [$run | {target, title}] end);
def cells: "| " + join(" | ") + " |";
def bold($is_best): if $is_best then "**" + . + "**" else . end;

# Victim's rate, total and 99th percentile; the best rate and percentile of the row are bold.
def readme_row($page; $scene):
  . as $all | targets as $targets
  | [$targets[] | .target as $t | [figures[0, 1, 3] | . as $f | $all | row($page; $t; "\($scene): \($f)").median | round]] as $medians
  | ($medians | map(.[0]) | max) as $most | ($medians | map(.[2]) | min) as $least
  | ["\(pages[$page]), \(scenes[$scene])"]
    + [$medians[] | . as [$victim, $total, $p99]
       | ($victim | thousands | bold($victim == $most)) + " of \($total | thousands), " + ("\($p99 | thousands) ms" | bold($p99 == $least))]
  | cells;

def readme:
  . as $all | targets as $targets
  | ("| |" + ([$targets[] | " \(.title) |"] | add)),
    ("|" + ([range($targets | length + 1)] | map("---") | join("|")) + "|"),
    ((pages | keys_unsorted[]) as $page | (scenes | keys_unsorted[]) as $scene | readme_row($page; $scene)),
    (["failed, highest of the six"]
     + [$targets[].target as $t | [$all.rows[] | select(.target == $t and (.name | endswith(figures[4]))).median] | max
        | if . == 0 then "0" else fixed(if . < 0.1 then 2 elif . < 10 then 1 else 0 end) + " %" end]
     | cells),
    (["CPU per static, PHP response (HTTP/1.1)"]
     + [$targets[].target as $t | [pages | keys_unsorted[] as $page | $all | row($page; $t; "http1-close: \(figures[5])").median | thousands]
        | join(", ") + " us"]
     | cells);

def title($page; $scene):
  "### " + {static: "Static page", php: "PHP page"}[$page] + ", " + {"http1-close": "HTTP/1.1", "https-kept": "HTTPS, kept", "http2": "HTTP/2"}[$scene];

def results:
  . as $all | targets as $targets
  | (.runs | map(.repetition) | max) as $runs
  | (pages | keys_unsorted[]) as $page | (scenes | keys_unsorted[]) as $scene
  | title($page; $scene), "",
    (["median and range of \($runs) runs"] + [$targets[].title] | cells),
    ("|" + ([range($targets | length + 1)] | map("---") | join("|")) + "|"),
    (figures[] as $f
     | [$f] + [$targets[].target as $t | $all | row($page; $t; "\($scene): \($f)") | "\(.median | short) (\(.min | short) to \(.max | short))"]
     | cells),
    "";

if $table == "readme" then readme elif $table == "results" then results else error("table is readme or results") end
