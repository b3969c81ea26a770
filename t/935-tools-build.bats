#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The module that bench.sh measures is built from the sources with the default flags.
# shellcheck disable=SC2016  # in_copy expands what it is given

load lib/common

setup_file() {
  export COPY=$BATS_FILE_TMPDIR/copy
  meets apxs || return 0
  mkdir "$COPY"
  # shellcheck disable=SC2030
  (
    . "$TOP/tools/lib/common.sh"
    . "$TOP/tools/lib/build.sh"
    build_inputs | tar -C "$TOP" -T - -cf - | tar -C "$COPY" -xf -
  )
  cp -R "$TOP/tools" "$COPY/"
  fewer_sources
  configured_otherwise
}

# Compiles some of the sources only: what is built is not under test here.
fewer_sources() {
  sed -i -E '/^\t(mod_vhostlimit|base|log|lease)/!{/^\t[a-z]+\/[a-z0-9_]+\.[ch] \\$/d}' "$COPY/mod_vhostlimit/Makefile.am"
}

need_apxs() { command -v apxs >/dev/null || need_program apxs2; }

# A configuration that would break any build that used it.
configured_otherwise() {
  printf 'CFLAGS = -O0 -fsanitize=address\nall:\n\tfalse\n' | tee "$COPY/Makefile" >"$COPY/mod_vhostlimit/Makefile"
  printf '#!/bin/sh\nexit 1\n' | tee "$COPY/config.status" >"$COPY/configure"
  chmod +x "$COPY/config.status" "$COPY/configure"
  mkdir "$COPY/mod_vhostlimit/.libs"
  echo 'not a module' | tee "$COPY/mod_vhostlimit/.libs/mod_vhostlimit.so" >"$COPY/mod_vhostlimit/base/vl_value.o"
}

setup() {
  requires apxs
  cd "$BATS_FILE_TMPDIR" || return
}

in_copy() { # <commands>: with bench.sh's functions, in an environment with other flags
  CFLAGS='-O0 -fsanitize=address' LDFLAGS=-fsanitize=address MAKEFLAGS='CFLAGS=-O0' CC=false \
    bash -c 'set -euo pipefail; . "$1/tools/lib/common.sh"; . "$1/tools/lib/httpd.sh"; . "$1/tools/lib/build.sh"; eval "$2"' \
    in_copy "$COPY" "$1"
}

build() { # <module>: builds it and writes its description to the file description
  in_copy "build_bench '$PWD/$1'; printf '%s\n' \"\$build_record\" >'$PWD/description'"
}

described() { jq -r "$1" description; }         # <jq filter>

built() { find "$COPY/.bench-build" -newer "$1" \( -name '*.o' -o -name '*.so' \) -printf '%f\n' | sort | xargs; }  # <file>

@test "flags, environment and objects of the source tree do not affect the build" {
  build module.so
  is "$(described '[.configure, .cflags] | join("|")')" '|-g -O2'
  is "$(described .module_sha256)" "$(sha256sum module.so | cut -d ' ' -f 1)"
  readelf --debug-dump=info module.so >info
  at_least "$(grep -c 'DW_AT_producer' info)" 10 'compiled files'
  is "$(grep 'DW_AT_producer' info | grep -vc -e ' -O2' || true)" 0 'files without -O2'
  is "$(grep 'DW_AT_producer' info | grep -c -e '-O0' -e sanitize || true)" 0 'files with other flags'
  is "$(cat "$COPY/mod_vhostlimit/.libs/mod_vhostlimit.so")" 'not a module' 'the tree'
}

@test "a second build compiles nothing, a change only its dependents, and removed files are removed" {
  touch stamp
  build module.so
  is "$(built stamp)" ''
  local before
  before=$(described '.module_sha256 + .source_sha256')
  echo 'extern int vl_changed; int vl_changed = 1;' >>"$COPY/mod_vhostlimit/base/vl_value.c"
  : >"$COPY/mod_vhostlimit/base/vl_extra.h"
  build module.so
  is "$(built stamp)" 'libvlcore_la-vl_value.o mod_vhostlimit.so'
  isnt "$(described .module_sha256)" "${before:0:64}"
  isnt "$(described .source_sha256)" "${before:64}"
  [[ -e $COPY/.bench-build/mod_vhostlimit/base/vl_extra.h ]] || fail 'a new file is not copied'
  rm "$COPY/mod_vhostlimit/base/vl_extra.h"
  build module.so
  [[ ! -e $COPY/.bench-build/mod_vhostlimit/base/vl_extra.h ]] || fail 'a removed file stays'
}

@test "after a failed build no older module is measured" {
  cp "$COPY/mod_vhostlimit/base/vl_value.c" value.c
  echo 'int vl_broken = ;' >>"$COPY/mod_vhostlimit/base/vl_value.c"
  try build other.so
  cp value.c "$COPY/mod_vhostlimit/base/vl_value.c"
  is "$status" 1
  like "$output" 'the build failed at: make'
  [[ ! -e other.so ]] || fail 'there is a module'
}

@test "a library that was installed since the tree was configured is found" {
  mkdir libraries
  printf '#!/bin/sh\necho %q\n' "$PWD/libraries" >pkg-config
  chmod +x pkg-config
  touch -d '1 hour ago' "$COPY/config.status"
  is "$(new_libraries)" '' "no library"
  : >libraries/new.pc
  is "$(new_libraries)" "$PWD/libraries/new.pc"
  touch "$COPY/config.status"
  is "$(new_libraries)" '' "configured since"
}
new_libraries() { in_copy "PATH=$PWD:\$PATH; build_new_libraries"; }

@test "the copy for a fleet has all that make needs" {
  requires long fleet
  mkdir fleet
  # shellcheck disable=SC2030,SC2031
  (
    . "$TOP/tools/lib/common.sh"
    . "$TOP/tools/lib/build.sh"
    build_bench_fleet
    build_inputs | tar -C "$TOP" -T - -cf - | tar -C fleet -xf -
  )
  cd fleet
  { ./autogen.sh && ./configure --enable-fleet; } &>log || { tail -n 5 log; fail "configure"; }
  plan_make mod_vhostlimit all
  plan_make ctl libctl.a vhostlimitctl
  : >ctl/libctl.a               # make -n has not made it
  plan_make fleet vhostlimit-fleet
}
plan_make()  { make -n -C "$@" &>log || { tail -n 3 log; fail "make in $1"; }; }      # <folder> <target>...
need_fleet() { pkg-config --exists hiredis jansson openssl || { echo "no hiredis, jansson or openssl"; return 1; }; }

@test "the commit is recorded, and whether the sources were changed since" {
  requires git_program
  build module.so
  is "$(described '[.commit, .dirty] | map(tojson) | join(" ")')" 'null null' 'outside of git'
  printf '/%s\n' .bench-build Makefile config.status configure >"$COPY/.gitignore"
  git -C "$COPY" init -q
  git -C "$COPY" add -A
  git -C "$COPY" -c user.name=test -c user.email=test@localhost commit -q -m all
  build module.so
  is "$(described .commit)" "$(git -C "$COPY" rev-parse HEAD)"
  is "$(described .dirty)" false
  echo '/* changed */' >>"$COPY/mod_vhostlimit/base/vl_value.c"
  # A checkout of another user, as under sudo.
  ((EUID != 0)) || { chmod a+x "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "${BATS_FILE_TMPDIR%/*}"; chown -R 65534:65534 "$COPY"; }
  build module.so
  is "$(described .dirty)" true
}
need_git_program() { need_program git; }
