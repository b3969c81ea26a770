# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Rows, published figures and charts of the test, from its runs.  Their values are
# expressions in the functions of rows.jq.

rows_json() { # <run.json>...: an array of rows
  rows_run "$@" < <(printf 'rows(%s; [%s])' "$(rows_described where,name,bar,goal,judged "${test_rows[@]}")" \
    "$(rows_values "${test_rows[@]}")")
}

rows_published_json() { # <run.json>...: an array of figures, published and ours
  rows_run "$@" < <(printf 'published(%s | map(.published |= tonumber); [%s])' \
    "$(rows_described where,name,published,unit "${test_published[@]}")" "$(rows_values "${test_published[@]}")")
}

rows_figures_json() { # <run.json>...: an array of charts
  rows_run "$@" < <(printf 'figures(%s; %s)' "$(rows_described title,x,y "${test_figures[@]}")" "$(rows_points)")
}

rows_run() { # <run.json>...: with the filter that is on stdin
  local filter
  filter=$(cat)
  lib_jq rows "include \"isolation\"; $filter" -sc "$@"
}

rows_described() { # <key,...> <row>...: JSON; the keys are of the first parts of a row
  (($# > 1)) || { echo '[]'; return; }
  printf '%s\n' "${@:2}" | jq -nR --arg keys "$1" '($keys | split(",")) as $keys
    | [inputs | split("\u001f") as $parts
       | reduce range($keys | length) as $i ({}; .[$keys[$i]] = $parts[$i])]'
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
