# shellcheck shell=bash disable=SC2154,SC2016
# SPDX-License-Identifier: Apache-2.0
# Rows of the test, from its runs.  Their values are
# expressions in the functions of rows.jq; names after $ in their filters are for jq.

rows_json() { # <run.json>...: an array of rows
  local rows_texts
  rows_set_texts
  lib_jq rows "include \"isolation\"; $(rows_filter)" -sc "${rows_texts[@]}" "$@"
}

# A filter of jq for an array of runs. It needs the argument in rows_texts.
rows_filter() {
  printf 'rows($row_texts | described("where,name,bar,goal,judged"); [%s])' "$(rows_values "${test_rows[@]}")"
}

rows_set_texts() { # sets rows_texts to arguments of jq
  local IFS=$'\n'
  rows_texts=(--arg row_texts "${test_rows[*]}")
}

rows_values() { # <row>...: jq: one value for each, null where its runs are missing
  local row sep=''
  for row; do
    printf '%sfirst((%s), null)' "$sep" "${row##*$'\x1f'}"
    sep=$',\n'
  done
}
