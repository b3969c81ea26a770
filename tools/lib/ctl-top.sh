# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# vhostlimitctl top: a screen a second.

declare -A top_keys=([c]=cpu [r]=running [w]=waiting [f]=refused [s]=rate [n]=name)

top_key_known() { [[ " ${top_keys[*]} " == *" $1 "* ]]; }  # <word>

# What is to be remembered comes first: the document is read once.
top_lines() { # <sort key> <most vhosts>
  [[ -e $(kept before) ]] || echo null >"$(kept before)"
  # shellcheck disable=SC2016  # jq's own
  answer_jq -r --arg by "$1" --argjson most "$2" --slurpfile before "$(kept before)" \
    'include "ctl"; (remembered | tojson), top($by; $before[0]; $most)' >"$(kept screen)"
  head -n 1 "$(kept screen)" >"$(kept before)"
  tail -n +2 "$(kept screen)" | print_table
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
  local by=$1 key rows columns shown
  on_exit top_screen_off
  top_screen_on
  while :; do
    ask status
    read -r rows columns < <(stty size 2>/dev/null || echo 24 80)
    ((rows > 4 && columns > 10)) || { rows=24; columns=80; }
    shown=0
    top_screen "$rows" "$columns" < <(
      top_lines "$by" "$((rows - 4))"
    )
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
    return
  fi
  ask status
  if want_json; then
    # shellcheck disable=SC2016  # jq's own
    answer_jq --arg by "$by" 'include "ctl"; ordered($by; null; 1e9)'
  else
    top_lines "$by" 1000000000
  fi
}
