#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Sources: layers, calls between files, terms, licenses, and the tarball's contents.

load lib/common
load lib/httpd
load lib/guard

@test "the core includes no header of httpd" {
  local files
  mapfile -t files < <(core_files)
  at_least "${#files[@]}" 6 "core files found"
  try grep -nE '#[ \t]*include[ \t]*[<"]([a-z]+/)?(httpd|http_|ap_|util_|mod_|mpm_|scoreboard|vl_(private|conf|hooks|status|accept|newconn|watchdog|listener|classify|notice|out|control|modules))' "${files[@]}"
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

# ---- layers: a folder uses only the folders before it ------------------------------

LAYERS=(base cgroup sandbox core cost log config lease accept request status control)

@test "the folders of the module are its layers" {
  local folders
  folders=$(find "$TOP/mod_vhostlimit" -mindepth 2 -name '*.c' -printf '%P\n' | cut -d / -f 1 | sort -u | xargs)
  is "$folders" "$(printf '%s\n' "${LAYERS[@]}" | sort | xargs)"
}

# Prints "FOLDER FOLDER FILE" for each include.
includes_of_folders() {
  (cd "$TOP/mod_vhostlimit" && grep -oE '^# *include "[a-z]+/' ./*/*.[ch]) | sed -E 's|^\./([a-z]+)/([^:]+):.*"([a-z]+)/|\1 \3 \2|'
}

# Prints "FOLDER FILE TYPE SYMBOL" for each symbol of the object files, as nm has it, FILE without
# its ending. Their folders have the names of the sources' folders.
symbols() {
  local all=$BATS_FILE_TMPDIR/symbols
  [[ -e $all ]] || symbols_of_objects >"$all"
  cat "$all"
}
symbols_of_objects() {
  (cd "${VL_BUILD_DIR:-$TOP}/mod_vhostlimit" && find . -path '*/.libs/*.o' -print0 | xargs -0 nm -A) |
    awk '{ path = $1; sub(/:.*/, "", path); n = split(path, part, "/"); file = part[n]; sub(/\.o$/, "", file); sub(/.*-/, "", file)
      name = $NF; sub(/@.*/, "", name); print part[2], file, $(NF - 1), name }'
}

# Prints "USER OWNER WHERE" for each call, and each use of a variable, of another folder, or of
# another file of a folder.
calls_of_folders() { symbols | uses 1; }
calls_of_files() { symbols | sed -n "s/^$1 /&/p" | uses 2; }        # <folder>
uses() { # <1: of folders, 2: of files>
  awk -v by="$1" '$4 ~ /^vl_/ && $3 ~ /[TDBR]/ { owner[$4] = $by }
    $3 == "U" { user[++n] = $by; used[n] = $4; where[n] = $2 ":" $4 }
    END { for (i = 1; i <= n; i++) if (used[i] in owner) print user[i], owner[used[i]], where[i] }'
}

# Prints the uses of a higher layer by a lower one.
uses_of_higher_layers() {
  awk -v layers="${LAYERS[*]}" 'BEGIN { n = split(layers, l, " "); for (i = 1; i <= n; i++) height[l[i]] = i }
    ($1 in height) && ($2 in height) && height[$1] < height[$2]'
}

@test "a folder includes headers of its own layer and of lower ones" {
  is "$(found 300 words includes_of_folders | uses_of_higher_layers)" ''
}

@test "a folder calls functions of its own layer and of lower ones" {
  requires nm
  is "$(found 1000 words calls_of_folders | uses_of_higher_layers)" ''
}

@test "files of a folder do not call each other in a circle" {
  requires nm
  local folder
  for folder in base cgroup sandbox core cost log config lease accept request status control; do
    try tsort < <(calls_of_files "$folder" | cut -d " " -f 1,2)
    is "$status" 0 "$folder: $output"
  done
  at_least "$(calls_of_files core | sort -u | wc -l)" 30 "calls between files of the core"
}

# Prints "HEADER HEADER" for each include of a header by a header.
includes_of_headers() {
  (cd "$TOP/mod_vhostlimit" && grep -oE '^# *include "[a-z]+/vl[a-z_0-9]*\.h"' ./*/*.h) |
    sed -E 's|^\./([^:]+):.*"(.*)"|\1 \2|'
}

@test "headers do not include each other in a circle" {
  local includes
  includes=$(found 200 words includes_of_headers)
  is "$(tsort <<<"$includes" 2>&1 >/dev/null)" ''
}

# Prints "HEADER FILE FUNCTION" for each function that a header declares and the file defines,
# both without folder and ending.
declarations() {
  {
    symbols | awk '$3 ~ /[TDBR]/ && $4 ~ /^vl_/ { print "is", $4, $2 }'
    perl -0777 -ne 's{/\*.*?\*/}{}gs; my ($header) = $ARGV =~ m{([^/]+)\.h$};
      for (split /\n/) { print "in $1 $header\n" if !/^(static|typedef|#)/ && /^[a-z].*\b(vl_[a-z0-9_]+)\(/ }' "$TOP"/mod_vhostlimit/*/*.h
  } | awk '$1 == "is" { owner[$2] = $3 } $1 == "in" && $2 in owner { print $3, owner[$2], $2 }'
}

# vl_conf.h is for vl_conf.c and vl_conf_check.c, vl_status_int.h for vl_status*.c.
@test "a header declares only functions of the files of its name" {
  requires nm
  is "$(found 1000 words declarations | awk '{ name = $1; sub(/_int$/, "", name) } index($2, name) != 1')" ''
}

# ---- folders ----------------------------------------------------------------------------

@test "README.md of each folder has its owner, invariants, lock and callers, and names each of its files" {
  local folder file files named page
  for folder in "${LAYERS[@]}"; do
    page=$(<"$TOP/mod_vhostlimit/$folder/README.md")
    like "$page" '\*\*Owns:\*\*.*\*\*Invariants:\*\*.*\*\*Lock:\*\*.*\*\*Callers:\*\*' "$folder"
    files=$(cd "$TOP/mod_vhostlimit/$folder" && ls -- *.c)
    named=$(sed -nE 's/^\| .([a-z_0-9]+\.[ch]). \|.*/\1/p' <<<"$page")
    is "$(comm -23 <(sort <<<"$files") <(sort <<<"$named"))" '' "files that $folder/README.md does not name"
    while read -r file; do
      [[ -e $TOP/mod_vhostlimit/$folder/$file ]] || fail "$folder/README.md names $file, which does not exist"
    done <<<"$named"
  done
}

# ---- words ----------------------------------------------------------------------------

# The subject of a sentence is a thing with a name, and one thing has one name.
IDIOMS='who|whom|whoever|somebody|nobody|anybody|everybody|he|him|his|deputy|seats?|sitters?|newcomers?|hands? on|handed on'
IDIOMS+='|gives? away|given away|stands? still|stood still|comes? and goe?s?|nothing to say|told right|lets? in'

@test "comments of the module, of vhostlimitctl and of vhostlimit-fleet use standard terms" {
  at_least "$(find "$TOP/mod_vhostlimit" -name '*.[ch]' | wc -l)" 100 "sources"
  is "$(cd "$TOP" && grep -nwiE "$IDIOMS" {ctl,fleet}/*.[ch])" '' "private idioms in vhostlimitctl and vhostlimit-fleet"
  is "$(cd "$TOP/mod_vhostlimit" && grep -rnwiE "$IDIOMS|visitors?|passports?" --include='*.[ch]' --include='*.js' --include='*.css' --exclude=vl_status_page.h . )" '' "private idioms"
}

# Prints "FILE:LINE: TEXT" for titles and comments of the scripts below t, and for all lines of
# its C programs and models.
words_of_tests() {
  cd "$TOP" || return
  awk '/^ *@test "/ { print FILENAME ":" FNR ": " $0; next }
    match($0, /(^|[ \t])#([ \t]|$).*/) { print FILENAME ":" FNR ": " substr($0, RSTART) }' t/*.bats t/*.sh t/lib/*.{bash,sh,pl} t/cgi/*
  grep -n '' t/unit/*.[ch] t/fuzz/*.[ch] t/lib/*.c t/model/*.pml
}

functions_of_tests() {
  cd "$TOP" || return
  grep -oE '^[a-z_]+\(\)' t/*.bats t/*.sh t/lib/*.bash
  grep -oE '^static [a-z_0-9 *]*[ *][a-z_0-9]+\(' t/unit/*.c
}

@test "titles, comments and names of functions of the tests use standard terms" {
  local words functions
  words=$(words_of_tests | grep -v 'apache or nobody')          # a user, in the help of smoke.sh
  at_least "$(grep -c '@test' <<<"$words")" 800 "titles"
  is "$(grep -wiE "$IDIOMS|gives? back|given back|in (its )?line behind|(its|their|whose) turn|becomes? of" <<<"$words")" '' "private idioms"
  functions=$(functions_of_tests | grep -v ':as_nobody()')      # runs as that user
  at_least "$(wc -l <<<"$functions")" 1000 "functions"
  is "$(grep -E '(^|[ :_*])(who|whoever|somebody|nobody|anybody|everybody|stands?_still)(_|\()' <<<"$functions")" '' "private idioms in names"
}

# APR's headers include unistd.h on some systems only: on Debian 11 they do not.
@test "a file that calls a function of unistd.h includes it" {
  requires nm
  local callers caller
  callers=$(found 20 "files that call these functions" callers_of_unistd)
  for caller in $callers; do
    [[ -e $TOP/mod_vhostlimit/$caller ]] || continue    # an object file of a source that was renamed
    grep -q '^#include <unistd.h>' "$TOP/mod_vhostlimit/$caller" || fail "$caller: does not include unistd.h"
  done
}

# Prints FOLDER/FILE.c of each object file of the module that uses such a function.
callers_of_unistd() {
  symbols | awk '$3 == "U" && $4 ~ /^(access|chown|close|dup[23]?|_exit|fork|ftruncate|get(e?[ug]id|p?pid)|gettid|lseek|pipe2?|p?(read|write)|readlink|rmdir|sysconf|syscall|unlink|usleep)$/ {
    print ($1 == ".libs" ? "" : $1 "/") $2 ".c" }' | sort -u
}

@test "only vl_cgroup_mount.c includes libcgroup" {
  try grep -lE '#[ \t]*include[ \t]*<libcgroup' "$TOP"/mod_vhostlimit/{,*/}*.[ch]
  is "$output" "$TOP/mod_vhostlimit/cgroup/vl_cgroup_mount.c" "files that include libcgroup"
}

@test "only four files read the time of day" {
  try grep -lE 'apr_time_now|CLOCK_REALTIME|gettimeofday' "$TOP"/mod_vhostlimit/{,*/}*.[ch]
  is "${lines[*]##*/}" 'vl_classify.c vl_shm.c vl_status.c vl_workers.c' "files that ask"
}

@test "the module exports one symbol, vhostlimit_module" {
  requires nm
  try nm -D --defined-only "$(vl_module)"
  is "$(awk '{ print $NF }' <<<"$output")" vhostlimit_module "exported symbols"
}

@test "the first lines of each source file name its license" {
  local files
  mapfile -t files < <(sources)
  at_least "${#files[@]}" 25 "source files found"
  is "$(awk 'FNR > 6 { nextfile } /SPDX-License-Identifier: Apache-2.0/ { print FILENAME; nextfile }' "${files[@]}" |
    sort | comm -23 <(printf '%s\n' "${files[@]}" | sort) -)" '' "files without it"
}

teardown() { [[ -z ${BUILD-} ]] || rm -rf "${BUILD:?}/guard-$$" "$BUILD/t/unit/guard.t"; }

# Makes what `make dist` would pack, under a name of this test: another test may build the
# package from the tree at the same time.
make_distdir() { make -s -C "$BUILD" distdir distdir="$1"; }  # <name>

# Prints the files of t without products of configure and make.
files_of_t() { # <folder with t in it>
  (cd "$1" && find t -type f ! -name '*.o' ! -name '*.lo' ! -name '*.la' ! -name '*.t' ! -name '*.log' ! -name '*.trs' \
    ! -name Makefile ! -path '*/.deps/*' ! -path '*/.libs/*' | sort)
}

@test "the tarball has every file of t and no built file" {
  BUILD=${VL_BUILD_DIR:-$TOP}
  [[ -e $BUILD/Makefile ]] || skip "the tree is not configured"
  local dist=guard-$$ want
  want=$(found 100 "files in t" files_of_t "$TOP")
  [[ $BUILD != "$TOP" ]] || touch "$BUILD/t/unit/guard.t"         # a built file, whatever else was built
  make_distdir "$dist" || fail "make distdir"
  is "$(files_of_t "$BUILD/$dist")" "$want" "files of t in the tarball"
  is "$(cd "$BUILD/$dist" && find t \( -name '*.o' -o -name '*.t' -o -name .deps -o -name .libs -o -name Makefile \))" "" "built files"
}
