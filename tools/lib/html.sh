# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# result.json as one HTML file without scripts or external files.  html.jq writes it,
# chart.sh draws the charts, html.css has the style.

# A subshell, whose end removes the folder of the charts.
html_print() ( # <result.json>
  edits=()
  drawn=$(mktemp -d)
  trap 'rm -rf "$drawn"' EXIT
  chart_svgs "$1" "$drawn"
  for file in "$drawn"/*.svg; do
    edits+=(-e "/^<!-- chart $(basename "$file" .svg) -->\$/{r $file" -e 'd}')
  done
  lib_jq html document -r --rawfile style "$(in_tree tools/lib/html.css)" "$1" | sed "${edits[@]}"
)
