# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Configuration files from templates: @KEY@ becomes the value.  Used by the tools and,
# through t/lib/httpd.bash, by the tests.

# Sets template_text to the template's text with the values, without a final newline.
template_fill() { # <template> [<KEY=value>]...
  local pair
  IFS= read -r -d '' template_text <"$1" || :         # read finds no zero byte
  template_text=${template_text%$'\n'}
  for pair in "${@:2}"; do
    template_text=${template_text//"@${pair%%=*}@"/"${pair#*=}"}
  done
}

# Writes the text to a file.  A key without a value ends the program.
template_render() { # <template> <output> [<KEY=value>]...
  local template_text
  template_fill "$1" "${@:3}"
  [[ ! $template_text =~ @[A-Z_]+@ ]] || die "$1: no value for ${BASH_REMATCH[0]}"
  printf '%s\n' "$template_text" >"$2.tmp"
  mv -- "$2.tmp" "$2"
}
