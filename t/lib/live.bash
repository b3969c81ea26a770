# SPDX-License-Identifier: Apache-2.0
#
# For files whose tests talk to a server: all helpers, and an end that looks for
# what was left behind. A file with one server for all tests defines its own
# teardown_file and calls end_server there; teardown only looks at the counts.

load lib/common
load lib/cgroup
load lib/httpd
load lib/http

# bats calls teardown and teardown_file where set -e has no effect: only their own status
# counts. So all steps run, and each failure is kept.
all_of() { # <command>...
  local command failed=0
  for command; do "$command" || failed=1; done
  return "$failed"
}

look_for_leftovers() { all_of release_all check_idle check_log; }

end_server() { all_of look_for_leftovers stop_httpd check_log check_cgroup_gone; }

teardown() {
  if [[ -n ${ONE_SERVER:-} ]]; then look_for_leftovers; else end_server; fi
}
