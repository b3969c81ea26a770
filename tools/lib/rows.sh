# shellcheck shell=bash disable=SC2154,SC2016
# SPDX-License-Identifier: Apache-2.0
# Rows, published figures and charts of the test, from its runs.  Their values are
# expressions in the functions of rows.jq; names after $ in their filters are for jq.

rows_json() { # <run.json>...: an array of rows
  local rows_texts
  rows_set_texts
  lib_jq rows "include \"isolation\"; $(rows_filter)" -sc "${rows_texts[@]}" "$@"
}

# Filters of jq for an array of runs: the rows; figures, published and ours; charts. They need
# the arguments in rows_texts.
rows_filter() {
  printf 'rows($row_texts | described("where,name,bar,goal,judged"); [%s])' "$(rows_values "${test_rows[@]}")"
}

rows_published_filter() {
  printf 'published($published_texts | described("where,name,published,unit") | map(.published |= tonumber); [%s])' \
    "$(rows_values "${test_published[@]}")"
}

rows_figures_filter() {
  printf 'figures($figure_texts | described("title,x,y"); %s)' "$(rows_points)"
}

rows_set_texts() { # sets rows_texts to arguments of jq
  local IFS=$'\n'
  rows_texts=(--arg row_texts "${test_rows[*]}" --arg published_texts "${test_published[*]}" --arg figure_texts "${test_figures[*]}")
}

rows_values() { # <row>...: jq: one value for each, null where its runs are missing
  local row sep=''
  for row; do
    printf '%sfirst((%s), null)' "$sep" "${row##*$'\x1f'}"
    sep=$',\n'
  done
}

rows_points() { # jq: one point for each figure
  local figure parts sep=''
  for figure in "${test_figures[@]}"; do
    IFS=$'\x1f' read -ra parts <<<"$figure"
    printf '%s{ x: first((%s), null), y: first((%s), null), series: (%s) }' "$sep" "${parts[@]:3:3}"
    sep=$',\n'
  done
  [[ -n $sep ]] || echo empty
}
