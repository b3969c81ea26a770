#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0

load lib/common
load lib/httpd
load lib/guard

@test "the core includes no header of httpd" {
  local files
  mapfile -t files < <(core_files)
  at_least "${#files[@]}" 6 "core files found"
  try grep -nE '#[ \t]*include[ \t]*[<"]([a-z]+/)?(httpd|http_|ap_|util_|mod_|mpm_|scoreboard|vl_(private|conf|hooks|status|accept|arrival|watchdog|listener|classify|notice|out|control|modules))' "${files[@]}"
  is "$status $output" "1 " "includes of httpd or of the edge"
}

@test "the core library calls no function of httpd" {
  requires nm
  local names
  names=$(found 100 "undefined symbols" undefined_symbols)
  like "$names" $'(^|\n)apr_' "symbols of APR among them"
  is "$(grep -E '^ap_' <<<"$names")" "" "functions of httpd"
}
undefined_symbols() { nm -u "$(core_library)" | sed -n 's/^ *U //p'; }

# ---- layers: a folder uses those before it -----------------------------------------

LAYERS=(base cgroup core cost log config lease accept request status control)

@test "the folders of the module are its layers" {
  local folders
  folders=$(find "$TOP/mod_vhostlimit" -mindepth 2 -name '*.c' -printf '%P\n' | cut -d / -f 1 | sort -u | xargs)
  is "$folders" "$(printf '%s\n' "${LAYERS[@]}" | sort | xargs)"
}

# Prints "FOLDER FOLDER FILE" for each include.
includes_of_folders() {
  (cd "$TOP/mod_vhostlimit" && grep -oE '^# *include "[a-z]+/' ./*/*.[ch]) | sed -E 's|^\./([a-z]+)/([^:]+):.*"([a-z]+)/|\1 \3 \2|'
}

# The same for each call, or use of a variable: from the objects, whose folders have the
# sources' names.
calls_of_folders() {
  local built=${VL_BUILD_DIR:-$TOP}/mod_vhostlimit object
  find "$built" -path '*/.libs/*.o' -printf '%P\n' |
    while read -r object; do nm "$built/$object" | sed "s|^|${object%%/*} ${object##*/} |"; done |
    awk '$NF ~ /^vl_/ && $(NF - 1) ~ /[TDBR]/ { owner[$NF] = $1 }
      $(NF - 1) == "U" { uses[++n] = $1 " " $2 " " $NF }
      END { for (i = 1; i <= n; i++) { split(uses[i], u, " "); if (u[3] in owner) print u[1], owner[u[3]], u[2] ":" u[3] } }'
}

# Prints what goes upward.
upward() {
  awk -v layers="${LAYERS[*]}" 'BEGIN { n = split(layers, l, " "); for (i = 1; i <= n; i++) height[l[i]] = i }
    ($1 in height) && ($2 in height) && height[$1] < height[$2]'
}

@test "a folder includes headers of its own layer and of lower ones" {
  is "$(found 300 words includes_of_folders | upward)" ''
}

@test "a folder calls functions of its own layer and of lower ones" {
  requires nm
  is "$(found 1000 words calls_of_folders | upward)" ''
}

# Prints "FILE FILE" for each call, or use of a variable, between two files of the folder.
calls_of_files() { # <folder>
  local objects=${VL_BUILD_DIR:-$TOP}/mod_vhostlimit/$1/.libs object
  for object in "$objects"/*.o; do nm "$object" | sed "s|^|${object##*-} |"; done |
    awk '$NF ~ /^vl_/ && $(NF - 1) ~ /[TDBR]/ { owner[$NF] = $1 }
      $(NF - 1) == "U" { uses[++n] = $1 " " $NF }
      END { for (i = 1; i <= n; i++) { split(uses[i], u, " "); if (u[2] in owner) print u[1], owner[u[2]] } }'
}

@test "files of a folder do not call each other in a circle" {
  requires nm
  local folder
  for folder in base cgroup core cost log config lease accept request status control; do
    try tsort < <(calls_of_files "$folder")
    is "$status" 0 "$folder: $output"
  done
  at_least "$(calls_of_files core | sort -u | wc -l)" 30 "calls between files of the core"
}

# ---- words ----------------------------------------------------------------------------

# A connection, a process or a request is named, and a thing has one name.
@test "comments of the module and of vhostlimitctl name what they speak of" {
  local idioms='who|whoever|somebody|nobody|deputy|seat|sitter|newcomers?|hands? on|handed on|gives? away|given away|stands? still'
  at_least "$(find "$TOP/mod_vhostlimit" -name '*.[ch]' | wc -l)" 100 "sources"
  is "$(cd "$TOP" && grep -nwiE "$idioms" ctl/*.[ch])" '' "private idioms in vhostlimitctl"
  is "$(cd "$TOP/mod_vhostlimit" && grep -rnwiE "$idioms" --include='*.[ch]' --include='*.js' --include='*.css' --exclude=vl_status_page.h . )" '' "private idioms"
}

@test "only vl_cgroup_mount.c includes libcgroup" {
  try grep -lE '#[ \t]*include[ \t]*<libcgroup' "$TOP"/mod_vhostlimit/{,*/}*.[ch]
  is "$output" "$TOP/mod_vhostlimit/cgroup/vl_cgroup_mount.c" "files that include libcgroup"
}

@test "the time of day is asked only for what people read" {
  try grep -lE 'apr_time_now|CLOCK_REALTIME|gettimeofday' "$TOP"/mod_vhostlimit/{,*/}*.[ch]
  is "${lines[*]##*/}" 'vl_arrival_answer.c vl_control_figures.c vl_shm.c vl_status.c' "files that ask"
}

@test "the module exports one symbol, vhostlimit_module" {
  requires nm
  try nm -D --defined-only "$(vl_module)"
  is "$(awk '{ print $NF }' <<<"$output")" vhostlimit_module "exported symbols"
}

@test "each source file names its licence in its first lines" {
  local files file
  mapfile -t files < <(sources)
  at_least "${#files[@]}" 25 "source files found"
  for file in "${files[@]}"; do
    grep -q 'SPDX-License-Identifier: Apache-2.0' <<<"$(head -n 6 "$file")" || fail "$file: no SPDX line"
  done
}

teardown() { [[ -z ${BUILD-} ]] || rm -rf "${BUILD:?}/guard-$$" "$BUILD/t/unit/guard.t"; }

# What `make dist` would pack. The name is this test's own, so that a package may be
# built from the tree at the same time.
make_distdir() { make -s -C "$BUILD" distdir distdir="$1"; }  # <name>

# Files of t, without what configure and make put there.
files_of_t() { # <folder with t in it>
  (cd "$1" && find t -type f ! -name '*.o' ! -name '*.lo' ! -name '*.la' ! -name '*.t' ! -name '*.log' ! -name '*.trs' \
    ! -name Makefile ! -path '*/.deps/*' ! -path '*/.libs/*' | sort)
}

@test "the tarball has every file of t, and nothing that was built in it" {
  BUILD=${VL_BUILD_DIR:-$TOP}
  [[ -e $BUILD/Makefile ]] || skip "the tree is not configured"
  local dist=guard-$$ want
  want=$(found 100 "files in t" files_of_t "$TOP")
  [[ $BUILD != "$TOP" ]] || touch "$BUILD/t/unit/guard.t"         # a built file, whatever else was built
  make_distdir "$dist" || fail "make distdir"
  is "$(files_of_t "$BUILD/$dist")" "$want" "files of t in the tarball"
  is "$(cd "$BUILD/$dist" && find t \( -name '*.o' -o -name '*.t' -o -name .deps -o -name .libs \))" "" "built files"
}
