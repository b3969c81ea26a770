#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: install what is missing, build with warnings as errors, run the whole
#          suite; skipped tests are shown with their reason
# Usage:   check.sh [FILE]...
#   FILE   test files instead of all, for example t/310-admit-counts.bats
#   -h, --help   this help
#   --version    the version
# Exit:    0 every test passed, the first or the second time; 1 one failed, or the build; 2 usage;
#          77 cannot run here (a program missing and not installable)

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$here/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/packages.sh
. "$here/lib/packages.sh"
# shellcheck source-path=SCRIPTDIR source=lib/build.sh
. "$here/lib/build.sh"

build_all() {
  say "building"
  build_module --enable-werror
  build_step 'unit tests' make -s -C t/unit check
}

# Two files at a time: most tests wait more than they work.  Those that set up the
# test bed come last, one by one, as there is one.
run_suite() { # <file>...
  rm -f .prove
  tests --jobs 2 --rules 'seq=t/9{30,40,50,60,65,70,90}*' --rules 'par=**' --state save "$@" && return
  say "what failed is tried once more, with nothing beside it: see above for how it failed"
  tests --state failed,save
}

# Of what the tests say, the passed ones are left out and the skipped ones kept.
tests() { # <argument of prove>...
  prove --verbose --timer --recurse --ext .bats --ext .t "$@" </dev/null |
    sed -u -e '/# skip/b' -e '/^ok [0-9]/d' -e '/^1\.\.[0-9]*$/d'
}

main() {
  local packaging=(rpm)
  [[ $(packages_family) != apt ]] || packaging+=(debhelper lintian)
  parse_options '' '' "$@"
  set -- "${words[@]:1}"
  packages_install compiler make autotools libtool pkgconfig apxs httpd mime cgroup php network \
    sysctl util curl jq sar siege wrk ab h2load openssl openssl-dev haproxy mod_qos ssh sshd git bats prove shellcheck groff \
    valgrind prometheus chromium gnuplot fonts bubblewrap clang clang-tidy cppcheck spin qemu systemd slowhttptest "${packaging[@]}"
  cd "$(in_tree .)"
  build_all
  run_suite "${@:-t}" || exit 1
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
