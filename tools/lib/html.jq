# SPDX-License-Identifier: Apache-2.0
# The HTML report, from result.json: the text of report.jq as tables.  $style is its style
# sheet.  The line <!-- chart N --> stands for a chart.

include "rows";
include "report";
include "chart";

def text: tostring | @html;
def tag(name): "<\(name)>\(text)</\(name)>";
def cell(name): if type == "object" and .span == 1 then .text | tag(name) elif type == "object" then "<\(name) colspan=\"\(.span)\">\(.text | text)</\(name)>" else tag(name) end;
def row_label: "<th scope=\"row\"" + (if startswith("  ") then " class=\"under\"" else "" end) + ">\(text)</th>";
def head_row: "<tr>\(map(cell("th")) | join(""))</tr>";
def row: "<tr>\(.[0] | row_label)\(.[1:] | map(cell("td")) | join(""))</tr>";
def table(head; body): "<div class=\"wide\" tabindex=\"0\"><table>", "<thead>", (head[] | head_row), "</thead>", "<tbody>", (body[] | row),
  "</tbody>", "</table></div>";

def title: "\(.test): \(.summary)" | text;
def state: [(.finished | sub("T"; " ") | sub("Z$"; " UTC")),
    if .complete then empty else "interrupted; only completed runs are reported" end,
    if .options.length == "quick" then "a quick run: it shows that everything works; its figures are not a measurement" else empty end]
  | join("; ") | text;

# "key:   words" -> a pair of a description list
def fact: capture("^(?<key>[a-z]+):? +(?<value>.*)$") | "<dt>\(.key | text)</dt><dd>\(.value | text)</dd>";
def fact_list: "<dl>", ([facts][1:][] | fact), (.machine.sysstat | values | "<dt>sar</dt><dd>\(text)</dd>"), "</dl>";

def verdict_row: .[5] as $verdict
  | "<tr>\(.[0] | row_label)<td class=\"\(
      if $verdict == "missed" then "bad" elif ($verdict | startswith("met")) then "good" else "" end)\">\($verdict | text)</td>\(.[1:5] | map(cell("td")) | join(""))</tr>";
def verdicts: select(row_table | length > 0)
  | "<section id=\"answers\">", "<h2>Bars and goals</h2>", "<div class=\"wide\" tabindex=\"0\"><table>",
    "<thead>", (row_head | .[:1] + [""] + .[1:] | head_row), "</thead>", "<tbody>", (row_table[] | verdict_row), "</tbody>", "</table></div>",
    "<p>The bar has to be met; the goal is what the project aims for. \(.rows | map(.values | length) | max
      | if . > 1 then "Shown are the median of \(.) repetitions, and the range." else "There was one repetition." end)</p>",
    "</section>";

def beside_section: select(beside_rows | length > 0)
  | "<section id=\"beside\">", "<h2>Side by side</h2>", table([beside_head]; beside_table),
    "<p>\([interval_notes] | map(text) | join("<br>"))</p>", "</section>";

# The rows above "users" are the head of the table.
def page_table($page): [table_rows($page)] as $rows | ($rows | map(.[0]) | index("users")) as $n
  | table($rows[:$n]; $rows[$n:]);

def published_section: select(.published // [] | length > 0)
  | "<section id=\"published\">", "<h2>Beside the published figures</h2>",
    "<p>\(.source | text) The ratio is ours to theirs.</p>",
    table([published_head]; published_table), "</section>";

def notes_section: [notes] | select(length > 0) | "<p>\(map(text) | join("<br>"))</p>";

def run_name: "\(.repetition), \(.page) page, \(who_name)";
def commands_section: "<section id=\"commands\">", "<h2>Command lines</h2>",
  (.options.command | select(. // "" != "") | "<pre>\(text)</pre>"),
  (.runs[] | select(.commands // [] | length > 0)
    | "<details><summary>\(run_name | text)</summary><pre>\(.commands | join("\n") | text)</pre></details>"),
  "</section>";

def head_section: "<!DOCTYPE html>", "<html lang=\"en\">", "<head>", "<meta charset=\"utf-8\">",
  "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">", "<title>\(title)</title>",
  "<style>", ($style | rtrimstr("\n")), "</style>", "</head>", "<body>", "<header>", "<h1>\(title)</h1>", "<p>\(state)</p>", "</header>";
def charts_section: "<section id=\"charts\">", "<h2>Charts</h2>", "<div class=\"charts\">",
  (charts | to_entries[] | "<figure>", "<figcaption>\(.value.title | text)</figcaption>", "<!-- chart \(.key) -->", "</figure>"),
  "</div>", "</section>";
def pages_section: "<section id=\"pages\">", "<h2>Measured</h2>", (pages as $page | page_table($page)), "</section>";
def machine_section: "<section id=\"machine\">", "<h2>Machine and method</h2>", fact_list, notes_section, "</section>";

def document: head_section, "<main>", beside_section, verdicts, charts_section, pages_section, published_section, machine_section,
  commands_section, "</main>", "</body>", "</html>";

# Page, charts of the page and charts of the image, with a line of \x1d between them.
def everything: document, "\u001d", svgs, "\u001d", png;
