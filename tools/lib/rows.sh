# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The rows of the test that was read, from its runs; the words are in rows.jq.

rows_json() { # <run.json>...: an array of rows
  jq -sc --argjson described "$(rows_described)" -L "$(in_tree tools/lib)" \
    "include \"rows\"; rows(\$described; [$(rows_values)])" "$@"
}

rows_described() { # JSON: all but the values
  ((${#test_rows[@]} == 0)) || printf '%s\n' "${test_rows[@]}" |
    jq -R 'split("\u001f") | { where: .[0], name: .[1], bar: .[2], goal: .[3] }' | jq -sc .
}

rows_values() { # jq: one value for each row, null where its runs are missing
  local row sep=''
  for row in "${test_rows[@]}"; do
    printf '%sfirst((%s), null)' "$sep" "${row##*$'\x1f'}"
    sep=$',\n'
  done
}
