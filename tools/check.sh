#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: install missing packages, build with warnings as errors, and run the test
#          files side by side; up to eight that failed run again, one at a time; a test
#          that cannot run is skipped with its reason
# Usage:   check.sh [-j NUMBER] [FILE]...
#          check.sh [-j NUMBER] --all [JOB]...
#   -j NUMBER   run NUMBER files at a time (two for each CPU; one without root)
#   FILE        run these test files or folders only, for example
#               t/310-admit-counts.bats; only what they need is installed
#   --all       run all test files and then the long jobs, one after the other (hours),
#               or the named JOBs only; t/README.md lists them
#   -h, --help  this help
#   --version   the version
#   VL_MPM=worker or VL_MPM=prefork in the environment: the MPM where a test does not choose.
#   The output of each file stays in .check/ until the next run.
# Exit:    0 no test failed; 1 a test or the build failed; 2 usage; 77 cannot run: what
#          the build needs is missing and could not be installed

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/packages.sh"
. "$here/lib/build.sh"
. "$here/lib/check-report.sh"

files_at_once=$((2 * $(nproc)))

# Jobs of --all after the suite: the name, and test files, which run in their long form,
# or a command.  After the colon are test files with the same dependencies as the command.
jobs_table() {
  cat <<'END'
analysers  t/040-guard-analysers.bats
model      t/842-robust-model.bats
memcheck   t/830-robust-valgrind.bats
machines   t/890-robust-kernels.bats
engaged    VHOSTLIMIT_TEST_STATE=engaged t
toggled    VHOSTLIMIT_TEST_STATE=toggled t
faults     t/537-accept-dormant.bats t/575-accept-prefork.bats t/855-robust-abuse.bats t/860-robust-faults.bats t/865-robust-shortage.bats t/870-robust-loaded-restarts.bats t/885-robust-limits.bats t/unit/vl_slot_race.t
apps       t/593-queue-apps.bats t/594-queue-databases.bats
bench      t/930-tools-setup.bats t/935-tools-build.bats t/940-tools-bench.bats t/942-tools-isolation.bats t/950-tools-clients.bats t/965-tools-killed.bats
package    t/970-tools-package.bats t/972-tools-week.bats
ansible    t/985-tools-ansible.bats
fuzz       tools/fuzz.sh -s 60 : t/840-robust-fuzz.bats
soak       t/880-robust-soak.bats
asan       tools/sanitize.sh asan : t
tsan       tools/sanitize.sh tsan : t
every      t/990-tools-every.bats
END
}

job_names() { echo suite; jobs_table | cut -d ' ' -f 1; }

job_does() { # <name>: what runs
  if [[ $1 == suite ]]; then echo t; else jobs_table | sed -n "s/^$1 *//p"; fi
}

job_files() { # <name>: the test files whose needs it has
  local does
  does=$(job_does "$1")
  does=${does#*=* }
  # shellcheck disable=SC2086  # words
  test_files ${does#*: }
}

# ---- files -------------------------------------------------------------------

test_files() { # <file or folder>...: the test files, one a line
  local name
  for name; do
    if [[ -d $name ]]; then
      find "$name" -name '*.bats' -o -name '*.t' -type f -perm /1
    else
      [[ $name == t/unit/*.t || (-f $name && $name == *.bats) ]] || die "'$name' is neither a test file (.bats, .t) nor a folder"
      printf '%s\n' "$name"
    fi
  done | sed 's,^\./,,' | sort -u
}

# Sorts files by the time that they took in the last run, the longest first, so that it
# does not run alone at the end. Without a time, tests of the tools count as the longest,
# then files with the most tests.
longest_first() {
  local file
  while read -r file; do
    case $file in
      */9*) echo 1000 "$file" ;;
      *.bats) printf '%d %s\n' "$(grep -c '^@test' "$file")" "$file" ;;
      *) echo 1 "$file" ;;
    esac
  done | awk -v times=.check/times '
    BEGIN { while ((getline <times) > 0) seconds[$3] = $1 }
    { print ($2 in seconds ? seconds[$2] : $1), $2 }' | sort -k 1,1nr | cut -d ' ' -f 2
}

# Runs files side by side. The summary of prove is printed after the report.
run_files() { # <files, one a line>
  local status=0 files failed
  rm -rf .check/files
  mkdir -p .check/files
  mapfile -t files < <(longest_first <<<"$1")
  prove_files "$files_at_once" "${files[@]}" || status=1
  mapfile -t failed < <(failed_files)
  if ((files_at_once > 1 && ${#failed[@]} > 0 && ${#failed[@]} <= 8)); then again_alone "${failed[@]}" && status=0; fi
  report_files
  cat .check/summary
  grep -q '^Result: ' .check/summary || { say "prove ended before all files had run"; status=1; }
  return "$status"
}

prove_files() { # <files at a time> <file>...
  prove --timer --jobs "$1" --exec tools/lib/check-file.sh "${@:2}" </dev/null |
    perl -ne '$| = 1; $held ||= /^(Test Summary Report|All tests successful\.)$/; s/ \(.* CPU\)$//;
      if ($held) { print STDERR } else { print }' 2>.check/summary
}

# Files that failed run a second time, one after the other with nothing beside them: what takes
# too long on a loaded machine passes then. So does a fault that is rare: the first output is shown
# in any case, and kept as .check/files/*.first.
again_alone() { # <file>...
  local file kept
  for file; do
    kept=.check/files/${file//\//-}
    cp "$kept.tap" "$kept.first"
    report_file "$file" "$kept.first"
  done
  cp .check/summary .check/summary.first
  say "$# failed; again, one at a time"
  prove_files 1 "$@" || return 1
  sed -n '/^Files=/p; s/^Result: FAIL$/Result: PASS/p' .check/summary.first >.check/summary
  say "passed alone: $*"
}

# ---- jobs --------------------------------------------------------------------

run_job() { # <name>
  local does
  does=$(job_does "$1")
  if [[ $does == tools/* ]]; then
    # shellcheck disable=SC2086  # words
    t/lib/isolate.sh ${does% : *}
  else
    case $does in
      t) ;;
      *=*) export "${does%% *}" ;;
      *) export VL_LONG=1 ;;
    esac
    run_files "$(job_files "$1")"
  fi
}

run_jobs() { # <name>...: one after the other, and a table of them
  local name start result status=0 table=''
  for name; do
    say "job $name"
    start=$SECONDS result=passed
    (run_job "$name") || result=FAILED status=1
    table+=$(printf '%-10s %-7s %6d s' "$name" "$result" $((SECONDS - start)))$'\n'
  done
  printf '\n%s' "$table"
  return "$status"
}

# ---- dependencies ----------------------------------------------------------

# Needed by the build and by every test file.
base_roles=(compiler make autotools libtool pkgconfig apxs httpd cgroup jansson network services bats prove curl jq)

install() { # <test files, one a line>
  local files roles missing
  mapfile -t files < <(grep '\.bats$' <<<"$1")
  packages_install "${base_roles[@]}"
  mapfile -t roles < <(packages_of_tests "${files[@]}")
  mapfile -t missing < <(packages_try "${roles[@]}")
  ((${#missing[@]} == 0)) || say "missing and not installable: ${missing[*]}; tests that need them are skipped"
}

option_jobs() { # [name]...: what --all runs
  local name
  (($#)) || { job_names; return; }
  for name; do
    [[ -n $(job_does "$name") ]] || misuse "there is no job '$name'; the jobs are $(job_names | paste -sd' ' -)"
  done
  printf '%s\n' "$@"
}

main() {
  local names=() jobs files name
  parse_options j: all "$@"
  set -- "${words[@]}"
  files_at_once=${given[-j]-$files_at_once}
  [[ ${given[-j]-1} =~ ^[1-9][0-9]?$ ]] || misuse "-j: '$files_at_once' is not a whole number from 1 to 99"
  for name; do names+=("${name#"$top/"}"); done
  cd "$(in_tree .)"
  if [[ -v given[--all] ]]; then
    jobs=$(option_jobs "${names[@]}")
    files=$(for name in $jobs; do job_files "$name"; done)
  else
    files=$(test_files "${names[@]:-t}")
  fi
  install "$files"
  # Without namespaces, which need iproute2, ports and names of two files would collide.
  if ! env -u VL_TEST_ID t/lib/isolate.sh test -e /run/vl-outer-net; then
    say "namespaces are not available (not root?); the files run one at a time"
    files_at_once=1
  fi
  say "building"
  build_module --enable-werror
  build_step 'unit tests' make -s -j "$(nproc)" -C t/unit check
  # shellcheck disable=SC2086  # words
  if [[ -v given[--all] ]]; then run_jobs $jobs || exit 1; else run_files "$(test_files "${names[@]:-t}")" || exit 1; fi
}
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
