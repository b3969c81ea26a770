# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Progress and time left, a line every ten seconds.  The length is an estimate, corrected by the
# time that the steps took.

progress_total=0 progress_start=0 progress_next=0 progress_what=''
progress_plan=0 progress_planned=0      # estimated seconds: of all steps, of the steps done

progress_begin() { # <seconds in all>
  progress_total=$1 progress_plan=$1 progress_planned=0 progress_start=$SECONDS progress_next=0
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
  local left=$((progress_total - SECONDS + progress_start))
  ((progress_total > 0 && SECONDS >= progress_next)) || return 0
  progress_next=$((SECONDS + 10))
  say "$progress_what; $(progress_time "$((left > 0 ? left : 0))") left"
}

progress_time() { # <seconds>
  if (($1 >= 60)); then printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); else printf '%d s' "$1"; fi
}

progress_end() { progress_total=0; }
