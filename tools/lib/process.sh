# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Processes that the tools started, and not others that have got the same pid since.

process_ours() { # <pidfile> <word>: the pid, if its command line has that word
  local pid
  [[ -s $1 ]] || return 1
  pid=$(<"$1")
  [[ $pid =~ ^[0-9]+$ ]] || return 1
  process_has_word "$pid" "$2" || return 1
  printf '%s\n' "$pid"
}

process_has_word() { # <pid> <word>: in its command line
  local words
  mapfile -d '' words 2>/dev/null <"/proc/$1/cmdline" || return 1
  [[ ${words[*]} == *"$2"* ]]
}

process_has_file() { # <pid> <path>: is it open?
  [[ -n $(find "/proc/$1/fd" -lname "$2" 2>/dev/null) ]]
}

process_program() { # <pid>: path of its program
  local program
  program=$(readlink "/proc/$1/exe") || return 1
  printf '%s\n' "${program% (deleted)}"
}

process_used_us() { # <pid>...: CPU time of their main threads together; nothing where the kernel does not say
  local pid ns sum=''
  for pid; do
    { read -r ns _ <"/proc/$pid/schedstat"; } 2>/dev/null || continue
    sum=$((${sum:-0} + ns))
  done
  [[ -z $sum ]] || printf '%s\n' "$((sum / 1000))"
}

# CPU time of all their threads, and of children that have ended; nothing without one. Of many threads, and
# of children, it is counted in steps of 10 ms.
process_cpu_us() { # <pid>...
  local pid sum='' words ns
  for pid; do
    { words=$(<"/proc/$pid/stat"); } 2>/dev/null || continue
    read -ra words <<<"${words##*) }"
    ns=$(((words[11] + words[12]) * 10000000))
    ((words[17] > 1)) || { read -r ns _ <"/proc/$pid/schedstat"; } 2>/dev/null || continue
    sum=$((${sum:-0} + ns / 1000 + (words[13] + words[14]) * 10000))
  done
  [[ -z $sum ]] || printf '%s\n' "$sum"
}

process_descendants() { # <pid>: and the process itself
  local pid
  printf '%s\n' "$1"
  while read -r pid; do process_descendants "$pid"; done < <(tr -s ' ' '\n' 2>/dev/null <"/proc/$1/task/$1/children")
}

process_gone() { # <pid>...
  local pid state
  for pid; do
    state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null) || continue
    [[ -z $state || $state == Z* ]] || return 1
  done
}

process_stop() { # <pid>...: ask, wait, insist
  (($#)) || return 0
  kill -TERM "$@" 2>/dev/null || true
  poll_until 5 process_gone "$@" && return
  kill -KILL "$@" 2>/dev/null || true
  poll_until 5 process_gone "$@"
}
