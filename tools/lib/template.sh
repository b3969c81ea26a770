# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Configuration files from templates: @KEY@ becomes the value.

template_render() { # <template> <output> [KEY=value]...
  local template=$1 output=$2 text pair
  text=$(<"$template")
  shift 2
  for pair; do
    text=${text//"@${pair%%=*}@"/"${pair#*=}"}
  done
  [[ ! $text =~ @[A-Z_]+@ ]] || die "$template: no value for ${BASH_REMATCH[0]}"
  printf '%s\n' "$text" >"$output.tmp"
  mv -- "$output.tmp" "$output"
}
