# SPDX-License-Identifier: Apache-2.0
# result.json -> the contents of its charts, and gnuplot's commands for them.

include "rows";
include "report";

# ---- the charts --------------------------------------------------------

def who_name: .title + (if .scene == "-" then "" else ", " + .scene end);
def site_name: "\(.site) (\(.role))";
def site_names: map(.sites | map(site_name)) | add | in_order;

# Bars: a group for each target and scene, in it a bar, or a part of one, for each series.
def bars(title; unit; series; values):
  { kind: "bars", title: title, x: unit, stacked: true, series: series,
    groups: map({ name: .title, scene: .scene, values: values }) };

def rates: pages as $page | of($page) | site_names as $names
  | bars("\($page) page: responses a second"; ""; $names;
      (.sites | map({ key: site_name, value: .rate }) | from_entries) as $rate | [$names[] | $rate[.]]);
def times: pages as $page | of($page) | select(any(.[].sites[]; .mean_s != null)) | site_names as $names
  | bars("\($page) page: mean response time"; "milliseconds"; $names;
      (.sites | map({ key: site_name, value: (.mean_s | values * 1000) }) | from_entries) as $time | [$names[] | $time[.]])
  | .stacked = false;
def cpu_use: pages as $page | of($page) | select(all(.[]; .sar))
  | bars("\($page) page: the server's CPU"; "percent"; ["user", "system", "iowait", "steal", "idle"];
      (.sar.cpu.server | [.user, .system, .iowait, .steal, .idle]))
  | . + { most: 100, colours: ["#0072b2", "#e69f00", "#cc79a7", "#d55e00", "#a0a0a0"] };

def lines(title; x; y; series): { kind: "lines", title: title, x: x, y: y, series: series };

# Admitted requests of each site, and slots, over time: for loads that begin later.
def courses: .runs[] | select(.repetition == 1 and (.samples | length > 8) and any(.clients[]; .from_s > .to_s * 0.2))
  | [.samples as $s | range($s | length - 4) as $i
      | { from: $s[$i], to: $s[$i + 4] } | select(.to.at > .from.at)] as $steps
  | lines("\(.page) page, \(who_name): admitted"; "seconds"; "requests a second";
      [.sites[] | .site as $site | { name: site_name, points: [$steps[]
        | [(.from.at + .to.at) / 2, (.to.sites[$site].requests - .from.sites[$site].requests) / (.to.at - .from.at)]] }]),
    lines("\(.page) page, \(who_name): slots"; "seconds"; "slots"; [{ name: "slots", points: [.samples[] | [.at, .slots]] }]);

def figures: ([pages] | length > 1) as $several | .figures // [] | .[]
  | lines(.title + (if $several then ", \(.page) page" else "" end); .x; .y; .series);

# The charts of the PNG come first and are marked.  If a test has figures, they replace
# charts with more than 16 bars.
def charts: (.figures // [] | length > 0) as $drawn
  | [(figures | .main = true), (rates | .main = ($drawn | not)), courses, times, cpu_use
     | select($drawn and (.groups // [] | length > 16) | not)];

# ---- gnuplot ------------------------------------------------------------------------

def quoted: "'" + (gsub("[\t\n]"; " ") | gsub("'"; "''")) + "'";
def colours: .colours // ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a6d3b", "#7f7f7f"];
def colour($i): colours | "lc rgb '\(.[$i % length])'";
def block($name; f): "$\($name) << EOD", f, "EOD";      # lines of data, inline

# The scene is below the target, or alone if there is one target only.
def two_lines: map(gsub("[\"\\\\\n]"; " ")) | "\"\(join("\\n"))\"";
def group_label($several): if .scene == "-" then [.name] elif $several then [.name, .scene] else [.scene] end | two_lines;
def group_labels: (.groups | map(.name) | unique | length > 1) as $several
  | [.groups | to_entries[] | "\(.value | group_label($several)) \(-.key)"] | join(", ");

# Stacked bars are end to end, others one below the other in a group of height 1.
def boxes: . as $c | (.series | length) as $n
  | [.groups | to_entries[] | .key as $g | .value.values as $v | range($n) as $i | select($v[$i] != null)
     | if $c.stacked
       then { i: $i, y: -$g, half: 0.32, from: ($v[:$i] | add // 0), to: ($v[:$i + 1] | add) }
       else { i: $i, y: (-$g + 0.4 - 0.8 * ($i + 0.5) / $n), half: (0.36 / $n), from: 0, to: $v[$i] } end];

def number: if . == null then "" elif fabs >= 100 then fixed(0) elif fabs >= 10 then fixed(1) else fixed(2) end;
def ends: if .most then empty elif .stacked
  then .groups | to_entries[] | "\(.value.values | map(values) | add // 0)\t\(-.key)\t\(.value.values | map(values) | add | number)"
  else boxes[] | "\(.to)\t\(.y)\t\(.to | number)" end;

# About three steps of 1, 2 or 5 times a power of ten.
def step: ([boxes[].to] | max // 0 | if . > 0 then . else 1 end / 3) as $third
  | pow(10; $third | log10 | floor) as $unit
  | first((1, 2, 5, 10) | . * $unit | select(. >= $third));

def bars_commands: . as $c | boxes as $boxes
  | "set xtics \(if .most then .most / 4 else step end)",
    "set xrange [0:\(.most // "*")]", "set yrange [\(0.5 - (.groups | length)):0.5]", "set xlabel \(.x | quoted)",
    "unset ylabel", "set ytics (\(group_labels))",
    (range(.series | length) as $i | block("part\($i)"; $boxes[] | select(.i == $i) | "\(.from)\t\(.y)\t\(.from)\t\(.to)\t\(.y - .half)\t\(.y + .half)")),
    block("ends"; ends),
    "plot \([(range(.series | length) as $i | select(any($boxes[]; .i == $i)) | "$part\($i) with boxxyerror \($c | colour($i)) title \(.series[$i] | quoted)"),
             if .most then empty else "$ends using 1:2:3 with labels left offset 0.5,0 notitle" end] | join(", \\\n  "))";

# gnuplot warns about a range without a width.
def x_range: [.series[].points[][0]] | if min == max then "[\(min - 1):\(max + 1)]" else "[*:*]" end;
def lines_commands: . as $c | any(.series[].points[]; length > 2 and .[3] > .[2]) as $spread
  | "set xtics autofreq", "set xrange \(x_range)", "set yrange [0:*]", "set ytics autofreq", "set xlabel \(.x | quoted)", "set ylabel \(.y | quoted)",
    (.series | to_entries[] | block("line\(.key)"; .value.points[] | map(tostring) | join("\t"))),
    "plot \([range(.series | length) as $i
       | (if (.series[$i].points[0] | length) > 2 then "with linespoints pt 7 ps 0.4" else "with lines" end) as $how
       | "$line\($i) using 1:2 \($how) lw 2 \($c | colour($i)) title \(.series[$i].name | quoted)",
         if $spread then "$line\($i) using 1:2:3:4 with yerrorbars ps 0 \($c | colour($i)) notitle" else empty end]
      | join(", \\\n  "))";

# The number of names in a line of the key; a chart has room for about 56 letters.
def key_columns: ([.series[] | if type == "object" then .name else . end | length] | max // 0) as $longest
  | [3, ([1, (56 / ($longest + 5) | floor)] | max)] | min;
def key_rows: (.series | length) as $n | if .kind == "bars" and $n < 2 then 0 else $n / key_columns | ceil end;
def height: key_rows * 24 + if .kind == "lines" then 320
  else (if .x == "" then 50 else 72 end) + (.groups | length)
    * ([if .groups[0].scene == "-" then 30 else 46 end, if .stacked then 0 else 14 + 16 * (.series | length) end] | max) end;

def settings: "set datafile separator tab", "set style fill solid 0.9 noborder", "set border 3", "set tics nomirror",
  "set grid xtics lc rgb '#808080' lw 0.5 dt 3", "set key at graph 1, screen 0.99 right top horizontal samplen 1.5", "set offsets graph 0, graph 0.02, 0, 0";
def drawing($titled): (if key_rows == 0 then "unset key" else "set key maxcols \(key_columns)" end), "set tmargin \(key_rows * 1.2 + 1 + if $titled then 1.5 else 0 end)", if .kind == "lines" then lines_commands else bars_commands end;

# Files 0.svg, 1.svg and so on in the current folder.
def svgs: charts | to_entries[] | .key as $i | .value
  | "reset", "set terminal svg size 480,\(height) dynamic noenhanced font 'sans-serif,13' name 'chart\($i)'", "set output '\($i).svg'", settings,
    (if .kind == "bars" then "set rmargin 9" else "set rmargin 3" end), drawing(false);
def png: [charts[] | select(.main)] | (map(height) | max) as $height
  | "set terminal pngcairo size \(720 * length),\($height * 1.5 + 30 | floor) noenhanced font 'sans-serif,15' background 'white'", settings,
    "set multiplot layout 1,\(length)", "set rmargin 9", (.[] | "set title \(.title | quoted)", drawing(true)), "unset multiplot";
