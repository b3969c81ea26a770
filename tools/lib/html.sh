# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# result.json as one HTML file without scripts or external files, and its main charts as an
# image.  html.jq writes them, chart.sh draws the charts, html.css has the style.

# A subshell, whose end removes the folder of the charts.
html_write() ( # <result.json> <folder>: report.html and report.png
  edits=()
  drawn=$(mktemp -d)
  trap 'rm -rf "$drawn"' EXIT
  # One jq for all: it takes longer to start than to write them.
  lib_jq html everything -r --rawfile style "$(in_tree tools/lib/html.css)" "$1" |
    awk -v folder="$drawn/" 'BEGIN { split("page svgs png", part, " "); n = 1 } /^\035$/ { n++; next } { print >(folder part[n]) }'
  chart_svgs "$drawn/svgs" "$drawn"
  for file in "$drawn"/*.svg; do
    edits+=(-e "/^<!-- chart $(basename "$file" .svg) -->\$/{r $file" -e 'd}')
  done
  sed "${edits[@]}" "$drawn/page" >"$2/report.html"
  chart_draw <"$drawn/png" >"$2/report.png"
)
