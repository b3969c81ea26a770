# SPDX-License-Identifier: Apache-2.0
#
# For test files with a server: all helpers, and a teardown that checks that nothing is
# left behind. A file with one server for all tests defines teardown_file and calls
# end_server there; its teardown checks the counts only.

load lib/common
load lib/cgroup
load lib/httpd
load lib/http

# bats calls teardown and teardown_file where set -e has no effect: only their own status
# counts. This runs all commands and fails if one of them fails.
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

# Runs the function with each MPM of MPMS that is here, each on a server of its own, with setup and
# teardown.
on_each_mpm() { # <function> [<argument>...]
  local mpm
  for mpm in ${MPMS:-event worker prefork}; do
    meets "$mpm" || { printf '# not on %s\n' "$mpm" >&3; continue; }
    printf 'on %s\n' "$mpm"
    "$1" "$mpm" "${@:2}"
    teardown
    rm -rf "${BATS_TEST_TMPDIR:?}"/*
    setup
  done
}
