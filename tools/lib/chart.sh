# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Charts of a result, drawn by gnuplot.  chart.jq has their contents.

# For an HTML page: black becomes the page's text color, and identifiers get the chart's
# number, so that they are unique in the page.
chart_svgs() { # <commands> <folder for 0.svg, 1.svg and so on>
  local file id
  (cd "$2" && chart_draw) <"$1"
  for file in "$2"/*.svg; do
    id=chart$(basename "$file" .svg)
    sed -i -e '1,/^<svg/s/^<?xml.*//' -e 's/fill *= *"black"/fill="currentColor"/g' -e 's/ color="black"//' \
      -e "s/stroke *= *['\"]black['\"]/stroke='currentColor'/g" -e "s/\(['#]\)gp\(Pt\|Dot\)/\1$id-gp\2/g" -e "s/\(['#\"]\)\(\(grey\)\?textbox\|gnuplot_canvas\)/\1$id-\2/g" "$file"
  done
}

chart_draw() { # commands on stdin
  gnuplot 2> >(sed 's/^/gnuplot: /' >&2) || die 'gnuplot could not draw a chart'
}
