# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Charts of a result, drawn by gnuplot.  chart.jq has their contents.

chart_jq() { # <result.json> <filter> [number]
  lib_jq chart "$2" -r --argjson i "${3-0}" "$1"
}

chart_count() { chart_jq "$1" 'charts | length'; }      # <result.json>

# For an HTML page: black becomes the page's text color, and identifiers get the chart's
# number, so that they are unique in the page.
chart_svg() { # <result.json> <number>
  # shellcheck disable=SC2016  # jq's own
  chart_jq "$1" 'svg($i)' "$2" | chart_draw |
    sed -e '1,/^<svg/s/^<?xml.*//' -e 's/fill *= *"black"/fill="currentColor"/g' -e 's/ color="black"//' \
      -e "s/stroke *= *['\"]black['\"]/stroke='currentColor'/g" -e "s/\(['#]\)gp\(Pt\|Dot\)/\1chart$2-gp\2/g" -e "s/\(['#\"]\)\(\(grey\)\?textbox\|gnuplot_canvas\)/\1chart$2-\2/g"
}

chart_png() { chart_jq "$1" png | chart_draw; }      # <result.json>

chart_draw() { # commands on stdin
  gnuplot 2> >(sed 's/^/gnuplot: /' >&2) || die 'gnuplot could not draw a chart'
}
