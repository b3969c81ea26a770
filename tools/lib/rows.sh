# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Rows, published figures and charts of the test, from its runs.  Their values are
# expressions in the functions of rows.jq.

rows_json() { # <run.json>...: an array of rows
  lib_jq rows "include \"isolation\"; $(rows_filter)" -sc "$@"
}

# Filters of jq for an array of runs: the rows; figures, published and ours; charts.
rows_filter() {
  printf 'rows(%s; [%s])' "$(rows_described where,name,bar,goal,judged "${test_rows[@]}")" "$(rows_values "${test_rows[@]}")"
}

rows_published_filter() {
  printf 'published(%s | map(.published |= tonumber); [%s])' \
    "$(rows_described where,name,published,unit "${test_published[@]}")" "$(rows_values "${test_published[@]}")"
}

rows_figures_filter() {
  printf 'figures(%s; %s)' "$(rows_described title,x,y "${test_figures[@]}")" "$(rows_points)"
}

rows_described() { # <key,...> <row>...: JSON; the keys are of the first parts of a row
  local keys row parts i value sep='' next
  IFS=, read -ra keys <<<"$1"
  printf '['
  for row in "${@:2}"; do
    IFS=$'\x1f' read -ra parts <<<"$row"
    printf '%s{' "$sep"
    sep=, next=''
    for i in "${!keys[@]}"; do
      value=${parts[i]//\\/\\\\}
      printf '%s"%s":"%s"' "$next" "${keys[i]}" "${value//\"/\\\"}"
      next=,
    done
    printf '}'
  done
  printf ']'
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
