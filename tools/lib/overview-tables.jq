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
# The first lines of a table with a column for each target.
def head($title): [$title] + (targets | map(.title))
  | cells, "|" + (map("---") | join("|")) + "|";

# A row: its title, and the median of each target.
def medians($title; $page; $scene; $figure; form):
  . as $all | [$title] + [targets[].target as $t | $all | row($page; $t; "\($scene): \($figure)").median | form] | cells;

# Rows of one figure for each page and protocol.
def rows_of($title; $figure; form):
  (pages | keys_unsorted[]) as $page | (scenes | keys_unsorted[]) as $scene
  | medians("\($title): \(pages[$page]), \(scenes[$scene])"; $page; $scene; $figure; form);

def readme:
  head("100 users beside 1000"),
  rows_of("responses/s"; figures[0]; thousands),
  rows_of("99th percentile, ms"; figures[3]; thousands),
  (["failed requests, %: highest of the six"]
   + [targets[].target as $t | [.rows[] | select(.target == $t and (.name | endswith(figures[4]))).median] | max | short]
   | cells),
  ((pages | keys_unsorted[]) as $page | medians("CPU time of a response, µs: \(pages[$page]), HTTP/1.1"; $page; "http1-close"; figures[5]; thousands));

def results:
  head("100 users beside 1000"),
  rows_of("all sites, responses/s"; figures[1]; thousands),
  rows_of("victim's share, %"; figures[2]; short);

if $table == "readme" then readme elif $table == "results" then results else error("table is readme or results") end
