# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# result.json as one HTML file without scripts or external files.  html.jq makes the
# parts, chart.sh the charts, html.css has the style.

html_jq() { # <result.json> <filter> [page] [number]
  lib_jq html "$2" -r --arg page "${3-}" --argjson i "${4-0}" "$1"
}

html_print() { # <result.json>
  html_head "$1"
  html_jq "$1" beside_section
  html_jq "$1" verdicts
  html_charts "$1"
  html_pages "$1"
  html_jq "$1" published_section
  printf '<section id="machine">\n<h2>Machine and method</h2>\n'
  html_jq "$1" 'fact_list, notes_section'
  printf '</section>\n'
  html_jq "$1" commands_section
  printf '</main>\n</body>\n</html>\n'
}

html_head() { # <result.json>
  local title
  title=$(html_jq "$1" title)
  printf '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
  printf '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
  printf '<title>%s</title>\n<style>\n' "$title"
  cat "$(in_tree tools/lib/html.css)"
  printf '</style>\n</head>\n<body>\n<header>\n<h1>%s</h1>\n<p>%s</p>\n</header>\n<main>\n' "$title" "$(html_jq "$1" state)"
}

html_charts() { # <result.json>
  local i count title
  count=$(chart_count "$1")
  printf '<section id="charts">\n<h2>Charts</h2>\n<div class="charts">\n'
  for ((i = 0; i < count; i++)); do
    title=$(html_jq "$1" chart_title '' "$i")
    printf '<figure>\n<figcaption>%s</figcaption>\n' "$title"
    chart_svg "$1" "$i"
    printf '</figure>\n'
  done
  printf '</div>\n</section>\n'
}

html_pages() { # <result.json>
  local page
  printf '<section id="pages">\n<h2>Measured</h2>\n'
  while read -r page; do
    html_jq "$1" page_table "$page"
  done < <(html_jq "$1" page_names)
  printf '</section>\n'
}
