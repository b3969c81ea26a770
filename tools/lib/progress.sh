# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Progress and time left: a bar if stderr is a terminal, otherwise a line every ten
# seconds.  The length is an estimate, corrected by the time that the steps took.

progress_total=0 progress_start=0 progress_next=0 progress_what='' progress_width=80
progress_plan=0 progress_planned=0      # estimated seconds: of all steps, of the steps done

progress_begin() { # <seconds in all>
  progress_total=$1 progress_plan=$1 progress_planned=0 progress_start=$SECONDS progress_next=0
  [[ ! -t 2 ]] || read -r _ progress_width < <(stty size <&2) || true
  ((progress_width > 0)) || progress_width=80
}

progress_more() { # <seconds>: a step is added
  progress_plan=$((progress_plan + $1)) progress_total=$((progress_total + $1))
}

progress_done() { # <seconds that this step was thought to take>
  local spent=$((SECONDS - progress_start))
  progress_planned=$((progress_planned + $1))
  ((progress_total == 0 || progress_planned == 0)) ||
    progress_total=$((spent + (progress_plan - progress_planned) * spent / progress_planned))
}

progress_step() { # <what is done now>
  progress_what=$1
  progress_next=0
  progress_show
}

progress_show() {
  local spent=$((SECONDS - progress_start)) left
  ((progress_total > 0)) || return 0
  left=$((progress_total > spent ? progress_total - spent : 0))
  if [[ -t 2 ]]; then
    progress_bar "$spent" "$left"
  elif ((SECONDS >= progress_next)); then
    progress_next=$((SECONDS + 10))
    say "$progress_what; $(progress_time "$left") left"
  fi
}

progress_bar() { # <spent> <left>
  local width=30 full bar line
  full=$(($1 * width / ($1 + $2 > 0 ? $1 + $2 : 1)))
  printf -v bar '%*s' "$full" ''
  bar=${bar// /#}
  printf -v line '[%-*s] %s left  %s' "$width" "$bar" "$(progress_time "$2")" "$progress_what"
  printf '\r%s\e[K' "${line:0:progress_width - 1}" >&2    # a line that wraps cannot be overwritten
}

progress_time() { # <seconds>
  if (($1 >= 60)); then printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); else printf '%d s' "$1"; fi
}

progress_end() {
  [[ ! -t 2 || $progress_total -eq 0 ]] || printf '\r\e[K' >&2
  progress_total=0
}
