#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The parsers of untrusted input, with random input for a short time. The long run is
# tools/fuzz.sh -n 10000000.

load lib/common

need_fuzzer() {
  need_program clang || return
  clang -fsanitize=fuzzer -x c -o /dev/null - 2>/dev/null <<<'int LLVMFuzzerTestOneInput(void *d, long n) { return 0; }' ||
    { echo "no libFuzzer"; return 1; }
}

fuzz_all() { timeout 400 "$TOP/tools/fuzz.sh" -s 1; }      # a function: `try` ends a program after a minute

@test "a second of random input for each parser find no error" {
  requires fuzzer
  local targets
  targets=$("$TOP/tools/fuzz.sh" -l | xargs)
  at_least "$(wc -w <<<"$targets")" 4 "targets"
  try fuzz_all
  is "$status" 0
  is "$(tail -n +2 <<<"$output" | awk '{ print $1 }' | xargs)" "$targets" "targets that ran"
  is "$(tail -n +2 <<<"$output" | awk '$2 < 1000 { print $1 }')" '' "targets that hardly ran"
}

@test "each target has a corpus, and each corpus has a target" {
  is "$(cd "$TOP/t/fuzz/corpus" && printf '%s\n' * | xargs)" "$("$TOP/tools/fuzz.sh" -l | xargs)"
}

@test "an unknown target is a usage error" {
  try "$TOP/tools/fuzz.sh" nothing
  is "$status" 2
  like "$output" "unknown target 'nothing'"
}
