# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# vhostlimitctl top: a screen a second.

declare -A top_keys=([c]=cpu [r]=running [w]=waiting [f]=refused [s]=rate [n]=name)

top_key_known() { [[ " ${top_keys[*]} " == *" $1 "* ]]; }  # <word>

top_lines() { # <sort key> <previous document or null> <most vhosts>
  local filter="include \"ctl\"; rates(\$previous[0]) | order(\"$1\")"
  if want_json; then
    answer_jq --slurpfile previous <(printf '%s' "$2") "$filter"
    return
  fi
  answer_jq -r --slurpfile previous <(printf '%s' "$2") "$filter | top($3)" | print_table
}

top_screen_on()  { printf '\e[?1049h\e[?25l'; }
top_screen_off() { printf '\e[?25h\e[?1049l'; }

top_screen() { # <lines> <columns>: stdin, cut to the terminal's size
  local line text=''
  while IFS= read -r line; do
    (($1 > ++shown)) || break
    text+=${line:0:$2}$'\e[K\n'
  done
  printf '\e[H%s\e[J' "$text"
}

top_live() { # <sort key>
  local by=$1 previous=null key rows columns shown
  on_exit top_screen_off
  top_screen_on
  while :; do
    ask status
    read -r rows columns < <(stty size 2>/dev/null || echo 24 80)
    ((rows > 4 && columns > 10)) || { rows=24; columns=80; }
    shown=0
    top_screen "$rows" "$columns" < <(
      top_lines "$by" "$previous" "$((rows - 4))"
    )
    previous=$(answer_document)
    key=
    IFS= read -rsn 1 -t 1 key || (($? > 128)) || break
    [[ $key != q ]] || break
    [[ -z $key || -z ${top_keys[$key]-} ]] || by=${top_keys[$key]}
  done
}

ctl_top() { # [sort key]
  local by=${1-cpu}
  top_key_known "$by" || misuse "top: '$by' is not one of cpu running waiting refused rate name"
  if [[ -t 0 && -t 1 ]] && ! want_json; then
    top_live "$by"
  else
    ask status
    top_lines "$by" null 100000
  fi
}
