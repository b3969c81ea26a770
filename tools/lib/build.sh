# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Builds the module in the source tree; what is out of date is make's business.

build_configured() { # [option]...: with these options?
  local option
  [[ -x $(in_tree config.status) && -e $(in_tree Makefile) ]] || return 1
  for option; do
    grep -qF -- "$option" <<<"$("$(in_tree config.status)" --config)" || return 1
  done
}

build_step() { # <name> <command>...: quiet unless it fails
  local name=$1 log
  shift
  log=$(mktemp)
  if ! (cd "$(in_tree .)" && "$@") </dev/null >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    die "the build failed at: $name"
  fi
  rm -f "$log"
}

build_module() { # [configure option]...
  local jobs
  jobs=$(nproc)
  [[ -x $(in_tree configure) ]] || build_step autogen.sh ./autogen.sh
  build_configured "$@" || build_step configure ./configure "$@"
  build_step make make -s -j "$jobs"
}
