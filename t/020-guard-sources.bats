#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0

load lib/common
load lib/httpd
load lib/guard

@test "the core includes no header of httpd" {
  local files
  mapfile -t files < <(core_files)
  at_least "${#files[@]}" 6 "core files found"
  try grep -nE '#[ \t]*include[ \t]*[<"](httpd|http_|ap_|util_|mod_|mpm_|scoreboard|vl_(private|conf|hooks|status|accept|arrival|deputy|listener|vhostmap|notice|out|control|outside))' "${files[@]}"
  is "$output" "" "includes of httpd or of the edge"
}

@test "only vl_cgroup.c includes libcgroup" {
  try grep -lE '#[ \t]*include[ \t]*<libcgroup' "$TOP"/mod_vhostlimit/*.[ch]
  is "$output" "$TOP/mod_vhostlimit/vl_cgroup.c" "files that include libcgroup"
}

@test "the time of day is asked only for what people read" {
  try grep -lE 'apr_time_now|CLOCK_REALTIME|gettimeofday' "$TOP"/mod_vhostlimit/*.[ch]
  is "${lines[*]##*/}" 'vl_arrival_answer.c vl_shm.c vl_status.c' "files that ask"
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
    head -n 6 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || fail "$file: no SPDX line"
  done
}

@test "the tarball takes the whole of t, and leaves out what was built in it" {
  like "$(<"$TOP/Makefile.am")" 'cp -R [a-z ]*t[a-z ]*\$\(abs_top_builddir\)/\$\(distdir\)' "dist-hook"
  like "$(<"$TOP/Makefile.am")" "find t/unit -name '\*\.t'" "dist-hook"
}
