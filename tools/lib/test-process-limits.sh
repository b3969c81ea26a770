# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Two sites of equal share: site 1 (A) always has 40 connections, site 2 (B) from
# 10 to 60, without and with ten programs that burn the server's CPU outside of
# Apache.  CPU shares compared with process limits, where refused clients try again at
# once; --full also has no limits, limits of 40, and all loads of B.

describe_process-limits() {
  local b rate='site("a").rate' loads=(10 60)
  test_summary "throughput of a site when its neighbor's load grows, and beside ten CPU hogs: CPU shares compared with process limits"
  test_targets limits20,vhostlimit
  test_pages mixed
  test_pools own
  test_fpm_children 64
  test_seconds 60
  if test_is_full; then
    loads=(10 20 30 40 50 60)
    test_targets plain,limits40,limits20,vhostlimit
  fi
  for b in "${loads[@]}"; do process_limits_scene "b$b" "$b" 0; done
  for b in "${loads[@]:$(test_is_full && echo 0 || echo 1)}"; do process_limits_scene "b$b-hogs" "$b" 10; done
  process_limits_figure "A's throughput" "$rate"
  process_limits_figure "both sites' throughput" .total.rate
  test_row all "A's throughput, B at 60 connections / at 10" '>= 0.95' '>= 1.0' \
    "ratio(this(\"b60\") | $rate; this(\"b10\") | $rate)"
  test_row all "A's throughput with ten hogs / without, B at 60" '>= 0.95' '>= 1.0' \
    "ratio(this(\"b60-hogs\") | $rate; this(\"b60\") | $rate)"
  for b in "${loads[@]}"; do
    test_row all "both sites' throughput / that of process limits 20:20, B at $b" '> 1' '' \
      "ratio(this(\"b$b\") | .total.rate; with(\"limits20\"; \"b$b\") | .total.rate)"
  done
}

process_limits_figure() { # <title> <value>
  test_figure "$1" "B's connections" 'answers a second' 'site("b").users' "$2" \
    '.title + (if .scene | endswith("-hogs") then ", ten hogs" else "" end)'
}

process_limits_scene() { # <name> <connections of B> <hogs>
  test_scene "$1"
  test_hogs "$3"
  test_load a 1 site1 40 0 100 burn2
  test_load b 2 site2 "$2" 0 100 burn2
}
