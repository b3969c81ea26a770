#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: run the README's two commands, or another command, on a fresh machine: a
#          clone of the committed state in a pristine Debian root
# Usage:   fresh.sh [OPTION]... [COMMAND [ARGUMENT]...]
#   COMMAND      run this in the clone instead of `tools/bench.sh --quick` and
#                `tools/check.sh`, for example: fresh.sh bash
#   -s SUITE     Debian suite (default: bookworm): bullseye, bookworm, trixie, sid
#   -w, --worktree
#                test the files of the work tree, with uncommitted changes; files that
#                git ignores are left out
#   --keep       keep the root, and print its folder
#   --root DIR   run in a root kept by --keep, with its clone as it is
#   -h, --help   this help
#   --version    the version
# The root has the packages of debootstrap --variant=minbase. It shares this machine's
# package source, network, devices and cgroups. It is removed at the end, also after a
# signal; after kill -9 the next run removes it. Base systems and packages are cached in
# /var/cache/vhostlimit-pristine (VL_PRISTINE_CACHE), roots are in
# /var/tmp/vhostlimit-pristine (VL_PRISTINE_ROOTS) and take up to 4 GB each. Variables
# whose names begin with VL_ are passed to the command.
# Exit:    0 every command succeeded; otherwise the status of the first command that
#          failed; 2 usage; 77 cannot run: not root, debootstrap or namespaces are
#          missing; 130 INT; 143 TERM

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/packages.sh"
. "$here/lib/pristine.sh"

declare -A option=([suite]=bookworm [keep]='' [worktree]='' [root]='')
source_folder=/root/mod_vhostlimit

parse() {
  parse_options +s:w worktree,keep,root: "$@"
  option=([suite]=${given[-s]-bookworm} [keep]=${given[--keep]-} [worktree]=${given[-w]-${given[--worktree]-}} [root]=${given[--root]-})
  [[ ${option[suite]} =~ ^[a-z]+$ ]] || misuse "'${option[suite]}' is not the name of a Debian suite"
  [[ -z ${option[root]} || -z ${option[worktree]} ]] || misuse "--worktree and --root cannot be combined: a kept root keeps its clone"
  command=("${words[@]}")
}

# Puts a clone, or with --worktree the files, into the root.
put_source() {
  local target=$pristine_root$source_folder safe file
  git -c safe.directory='*' -C "$top" rev-parse -q --verify HEAD >/dev/null ||
    cannot "$top is not a git work tree with a commit: there is nothing to clone"
  if [[ ${option[worktree]} ]]; then
    mkdir -p "$target"
    git -c safe.directory='*' -C "$top" ls-files -z --cached --others --exclude-standard |
      while IFS= read -r -d '' file; do [[ ! -e $top/$file ]] || printf '%s\0' "$file"; done |
      tar --create --null --directory "$top" --files-from - |
      tar --extract --no-same-owner --directory "$target"
    say "testing the work tree of $top with its uncommitted changes"
    return
  fi
  # git refuses to let root clone another user's work tree without this
  safe=$(mktemp)
  printf '[safe]\n\tdirectory = *\n' >"$safe"
  GIT_CONFIG_GLOBAL=$safe git clone -q --no-hardlinks "$top" "$target" || die "git could not clone $top"
  rm -f "$safe"
  say "testing commit $(git -c safe.directory='*' -C "$top" rev-parse --short HEAD)"
  [[ -z $(git -c safe.directory='*' -C "$top" status --porcelain) ]] ||
    say "uncommitted changes in $top are not tested; use --worktree to test them"
}

step() { # <command>...: run in the clone, say how long it took
  local status=0 begin=$SECONDS
  say "running $* on Debian $suite"
  pristine_run "$source_folder" "$@" || status=$?
  say "$* took $(duration $((SECONDS - begin))), status $status"
  return "$status"
}

duration() { # <seconds>
  if (($1 < 60)); then printf '%d s' "$1"; else printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); fi
}

finish() {
  if [[ ${option[keep]} || ${option[root]} ]]; then
    pristine_keep
    say "kept ${pristine_root%/root}; run more in it with --root, or remove it with rm -rf"
  else
    pristine_remove
  fi
}

main() {
  local begin=$SECONDS
  parse "$@"
  pristine_need
  pristine_root=
  if [[ ${option[root]} ]]; then
    pristine_reopen "${option[root]}"
    on_exit finish
  else
    on_exit pristine_remove
    pristine_make "${option[suite]}"
    exit_jobs=()
    on_exit finish
    put_source
    say "created the root in $(duration $((SECONDS - begin)))"
  fi
  suite=$(cat "${pristine_root%/root}/suite")
  if ((${#command[@]})); then
    step "${command[@]}"
  else
    step tools/bench.sh --quick
    step tools/check.sh
  fi
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
