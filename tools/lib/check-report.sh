# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The report of check.sh after a run, from .check/files: skipped tests, the slowest files,
# and the output of failed files.

report_files() {
  local status file
  # Seconds, CPU seconds and name of each file that has ended.
  for status in .check/files/*.status; do
    read -r file _ <"$status"
    awk -v file="$file" '{ printf "%.1f %.1f %s\n", $1, $2 + $3, file }' "${status%.status}.time"
  done | sort -rn >.check/times.new
  if [[ -z ${VL_LONG-} ]]; then         # with those of files that did not run now, for the next run's order
    touch .check/times
    awk '!($3 in seen) { seen[$3] = 1; print }' .check/times.new .check/times >.check/times.all
    mv .check/times.all .check/times
  fi
  printf '\nSkipped tests:\n'
  for status in .check/files/*.status; do
    read -r file _ <"$status"
    sed -nE "s,^ok ([0-9]+) (.*) # skip ?(.*)$,  $file \1 (\3): \2,Ip; s,^1\.\.0 # skipped ?(.*)$,  $file (\1),Ip" "${status%.status}.tap"
  done | sort | grep . || echo '  none'
  printf '\nSlowest files (seconds, seconds of CPU time):\n'
  sed -n '1,10s/^/  /p' .check/times.new
  awk '{ cpu += $2 } END { printf "  CPU time of all files: %d s\n", cpu }' .check/times.new
  while read -r file; do report_file "$file" ".check/files/${file//\//-}.tap"; done < <(failed_files)
  echo
}

failed_files() {
  local status file rc
  for status in .check/files/*.status; do
    read -r file rc <"$status"
    ((rc == 0)) && ! grep -q '^not ok' "${status%.status}.tap" || echo "$file"
  done
}

# Prints the output of a failed file without its passed tests.
report_file() { # <file> <its output>
  printf '\nFAILED: %s\n' "$1"
  sed '/^ok /d; /^1\.\.[0-9]*$/d' "$2"
}
