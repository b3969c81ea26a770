# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Builds the module: in the source tree for tests, and in a folder of its own for
# measurements.  make decides what is out of date.

build_dir=$(in_tree .)          # where build_step works

build_configured() { # [option]...: is the source tree configured with these options?
  local option
  [[ -x $(in_tree config.status) && -e $(in_tree Makefile) ]] || return 1
  for option; do
    grep -qF -- "$option" <<<"$("$(in_tree config.status)" --config)" || return 1
  done
}

# Prints a library of pkg-config that was installed since the tree was configured, if there is one.
# configure leaves out parts whose libraries are missing.
build_new_libraries() {
  local folders
  IFS=: read -ra folders <<<"$(pkg-config --variable pc_path pkg-config 2>/dev/null)"
  ((${#folders[@]} == 0)) ||
    find "${folders[@]}" -name '*.pc' -cnewer "$(in_tree config.status)" -print -quit 2>/dev/null || :
}

build_step() { # <name> <command>...: prints the end of the output if it fails
  local name=$1 log
  shift
  log=$(mktemp)
  if ! (cd "$build_dir" && "$@") </dev/null >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    die "the build failed at: $name"
  fi
  rm -f "$log"
}

build_module() { # [configure option]...: in the source tree
  local jobs
  jobs=$(nproc)
  [[ -x $(in_tree configure) ]] || build_step autogen.sh ./autogen.sh
  if ! build_configured "$@"; then
    build_step configure ./configure "$@"
  elif [[ -n $(build_new_libraries) ]]; then
    build_step configure ./config.status --recheck
    build_step config.status ./config.status
  fi
  build_step make make -s -j "$jobs"
}

# --- the module that is measured --------------------------------------------
# The source tree may be configured for a debugger, a sanitizer or -Werror.  The module
# for measurements is therefore built from a copy of the sources, with configure's
# defaults and without the caller's environment.  The copy is kept, so that the next
# measurement compiles only what has changed.

build_bench_dir=$(in_tree .bench-build)
build_bench_lock=
build_record=null               # see build_describe
# vhostlimitctl is not measured, and its library need not be installed.
build_bench_option=--disable-vhostlimitctl
build_bench_parts='-path ./mod_vhostlimit/*'    # folders of sources, for find

# For a test of a fleet: builds vhostlimit-fleet and vhostlimitctl too.
build_bench_fleet() {
  build_bench_dir=$(in_tree .bench-build/fleet)
  build_bench_option=--enable-fleet
  # The help of vhostlimitctl is made from its page.
  build_bench_parts+=' -o -path ./ctl/* -o -path ./fleet/* -o -path ./docs/man/* -o -path ./docs/reference/vhostlimitctl.md'
}

# Builds and copies the module, and sets build_record, a JSON object.  A lock lets one
# bench.sh at a time build.
build_bench() { # <file for the module>
  build_bench_begin
  build_bench_sync
  build_dir=$build_bench_dir
  if [[ ! -e $build_bench_dir/configured ]]; then
    build_step autogen.sh build_clean_env ./autogen.sh
    build_step configure build_clean_env ./configure "$build_bench_option"
    : >"$build_bench_dir/configured"
  fi
  build_step make build_clean_env make -s -C mod_vhostlimit -j "$(nproc)"
  if [[ $build_bench_option == --enable-fleet ]]; then
    build_step make build_clean_env make -s -C ctl libctl.a vhostlimitctl
    build_step make build_clean_env make -s -C fleet vhostlimit-fleet
    cp "$build_bench_dir/ctl/vhostlimitctl" "$build_bench_dir/fleet/vhostlimit-fleet" "${1%/*}"
  fi
  build_dir=$(in_tree .)
  cp "$build_bench_dir/mod_vhostlimit/.libs/mod_vhostlimit.so" "$1"
  # shellcheck disable=SC2034  # for result.sh
  build_record=$(build_describe "$1")
  exec {build_bench_lock}>&-
}

# Removes a build by another compiler or for another Apache.
build_bench_begin() {
  local key binary
  mkdir -p "$build_bench_dir" || die "the build folder $build_bench_dir cannot be created"
  exec {build_bench_lock}>>"$build_bench_dir/lock"
  flock -w 900 "$build_bench_lock" || die "another build has been running in $build_bench_dir for 15 minutes"
  binary=$(httpd_binary)
  key=$(gcc --version | sed -n 1p; httpd_version "$binary"; httpd_module_dir; echo "$build_bench_option")
  [[ ! -e $build_bench_dir/key || $(<"$build_bench_dir/key") != "$key" ]] || return 0
  find "$build_bench_dir" -mindepth 1 -maxdepth 1 ! -name lock -exec rm -rf {} +
  printf '%s\n' "$key" >"$build_bench_dir/key"
}

build_clean_env() { # <command>...
  env -i PATH="$PATH" HOME=/ LC_ALL=C ${PKG_CONFIG_PATH+PKG_CONFIG_PATH="$PKG_CONFIG_PATH"} "$@"
}

# The files that autogen.sh, configure and make read, without those that they write.
build_inputs() { # paths in the source tree, a line each
  local parts
  read -ra parts <<<"$build_bench_parts"
  (cd "$(in_tree .)" && find . -mindepth 1 \( -name '.?*' -o -path ./results -o -path ./deb -o -path ./_build -o -path ./_inst \
    -o -path './mod_vhostlimit-[0-9]*' -o -name autom4te.cache -o -path ./build-aux \) -prune -o \
    -type f \( "${parts[@]}" -o -name '*.ac' -o -name '*.am' -o -name '*.in' -o -name '*.m4' -o -name autogen.sh \) \
    ! -name '*.o' ! -name '*.lo' ! -name '*.la' ! -name Makefile ! -name '*.a' ! -name Makefile.in ! -name 'config.h.in*' \
    ! -name aclocal.m4 ! -path './m4/l*.m4' ! -name 'vl_status_page.h*' -print) | LC_ALL=C sort
}

# Copies files that differ, so that make sees them as changed, and removes files that the
# source tree no longer has.
build_bench_sync() {
  local file new=$build_bench_dir/inputs.new old=$build_bench_dir/inputs
  (cd "$(in_tree .)" && build_inputs | xargs -d '\n' sha256sum) >"$new"
  while read -r file; do
    mkdir -p "$build_bench_dir/${file%/*}"
    cp --preserve=mode "$(in_tree "$file")" "$build_bench_dir/$file"
  done < <(cd "$build_bench_dir" && LC_ALL=C sha256sum -c --quiet inputs.new 2>/dev/null | sed -n 's/: FAILED.*//p')
  [[ ! -e $old ]] || while read -r file; do
    rm -f "$build_bench_dir/$file"
  done < <(comm -13 <(cut -c 67- "$new") <(cut -c 67- "$old"))
  mv "$new" "$old"
}

build_describe() { # <module> -> JSON: what it was built from, and how
  local commit='' dirty='' makefile=$build_bench_dir/mod_vhostlimit/Makefile
  if [[ $(build_git rev-parse --show-toplevel) -ef $(in_tree .) ]] && commit=$(build_git rev-parse HEAD); then
    dirty=$(build_git status --porcelain)
  fi
  lib_jq result build -nc --arg commit "$commit" --arg dirty "$dirty" \
    --arg version "$(sed -n 's/^PACKAGE_VERSION = //p' "$makefile")" \
    --arg configure "$("$build_bench_dir/config.status" --config | sed "s/^'*$build_bench_option'*\$//")" \
    --arg cflags "$(sed -n 's/^CFLAGS = //p' "$makefile")" --arg compiler "$(gcc --version | sed -n 1p)" \
    --arg source_sha256 "$(grep -E '  \./(mod_vhostlimit/|configure\.ac)' "$build_bench_dir/inputs" | sha256sum | cut -d ' ' -f 1)" \
    --arg module_sha256 "$(sha256sum "$1" | cut -d ' ' -f 1)"
}

# Runs git as the owner of the checkout: it rejects those of other users, for root too.
build_git() { # <argument>...; nothing if git is missing or this is no checkout
  local owner as=()
  owner=$(stat -c %u "$(in_tree .)")
  ((EUID != 0 || owner == 0)) || as=(setpriv --reuid "$owner" --regid "$(stat -c %g "$(in_tree .)")" --clear-groups)
  "${as[@]}" env HOME=/ GIT_OPTIONAL_LOCKS=0 git -C "$(in_tree .)" "$@" 2>/dev/null
}
