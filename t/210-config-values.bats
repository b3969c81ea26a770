#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Values of each directive: accepted ones, and the errors for others.

load lib/common
load lib/httpd

setup() { mkdir -p "$HTTPD_ROOT"; }

accepted() { # <line>...   all together in the server, and again in a vhost
  local line options=()
  check_config "$@"
  is "$status" 0 "in the server: $*"
  for line; do
    [[ $line =~ ^VhostLimit(Cgroup|Slots|OnError) ]] || options+=(-v "a $line")
  done
  check_config "${options[@]}"
  is "$status" 0 "in a vhost: $*"
}

rejected() { # <line> <sentence>   by the server
  check_config "$1"
  isnt "$status" 0 "exit status with: $1"
  like "$output" "$2" "error for: $1"
}

# The values of a directive that are accepted, and the error for others. A value with a blank is
# in quotation marks, which the error does not have.
takes() { # <directive> <error> <accepted value>... -- <other value>...
  local name=$1 error=$2 value lines=()
  shift 2
  while [[ $1 != -- ]]; do lines+=("$name $1"); shift; done
  accepted "${lines[@]}"
  for value in "${@:2}"; do rejected "$name $value" "$name: '${value//\"/}' $error"; done
}

@test "VhostLimit is On, Off or DryRun, in upper or lower case" {
  takes VhostLimit 'is not one of On, Off, DryRun' On off DRYRUN -- maybe '"On "'
}

@test "VhostLimitConcurrency is 0 to 1000000" {
  takes VhostLimitConcurrency 'is not a whole number from 0 to 1000000' 0 1 1000000 -- \
    abc -1 1000001 1.5 5x '" 5"' 99999999999999999999 0x10
}

@test "VhostLimitStatusCode is 503, 429 or 508" {
  takes VhostLimitStatusCode 'is not one of 503, 429, 508' 503 429 508 -- 404 50 5030 abc 200
}

@test "VhostLimitRetryAfter is auto, off or 1 to 86400" {
  takes VhostLimitRetryAfter 'is not auto, off or a whole number of seconds from 1 to 86400' auto Off 1 86400 -- \
    0 86401 -5 soon 10s
}

@test "VhostLimitCgroup is auto, off or an absolute path without .." {
  takes VhostLimitCgroup 'is not auto, off or an absolute cgroup path' auto off /web/vhosts -- x web/vhosts ./x /../x
}

@test "VhostLimitDatabaseUser accepts names and beginnings of names, of one site only" {
  local long value
  long=$(printf 'x%.0s' {1..128})
  check_config 'VhostLimit On' -v "a VhostLimitDatabaseUser shop anna_* $long" -v 'b VhostLimitDatabaseUser anna anna_b*'
  is "$status" 0
  for value in '*' 'a*b' "x$long"; do
    check_config 'VhostLimit On' -v "a VhostLimitDatabaseUser $value"
    is "$status" 1
    like "$output" 'is neither a name of up to 128 bytes nor the beginning of names and \*'
  done
  rejected 'VhostLimitDatabaseUser shop' 'VhostLimitDatabaseUser: write it into the <VirtualHost>'
  check_config 'VhostLimit On' -v 'a VhostLimitDatabaseUser shop' -v 'b VhostLimitDatabaseUser shop'
  is "$status" 1
  like "$output" 'VL0083: VhostLimitDatabaseUser shop: sites a\.test and b\.test both have it'
  check_config 'VhostLimit On' -v 'a VhostLimitDatabaseUser shop' -v 'b ServerName a.test' -v 'b VhostLimitDatabaseUser shop'
  is "$status" 0
}

@test "VhostLimitWeight is 1 to 10000" {
  takes VhostLimitWeight 'is not a whole number from 1 to 10000' 1 100 10000 -- 0 10001 -1 heavy 1.5 50%
}

@test "VhostLimitQueue is 0 to 1000000, and a time from 1ms to 1h" {
  local value
  takes VhostLimitQueue 'is not a whole number from 0 to 1000000' 0 1000000 '5 1ms' '5 10' '5 10s' '5 2min' '5 1h' -- \
    -1 1000001 many 5.5
  for value in 0 0ms 3601 2h -5s soon 5parsec; do
    rejected "VhostLimitQueue 100 $value" "VhostLimitQueue: '$value' is not a time from 1ms to 1h"
  done
  rejected 'VhostLimitQueue' 'VhostLimitQueue takes 1-2 arguments'
  rejected 'VhostLimitQueue 1 2 3' 'VhostLimitQueue takes 1-2 arguments'
}

@test "VhostLimitSlots is auto or 1 to 100000" {
  takes VhostLimitSlots 'is not auto or a whole number from 1 to 100000' auto Auto 1 100000 -- 0 100001 -1 off 2.5
}

@test "VhostLimitCPU is none or 1% to 100000%" {
  takes VhostLimitCPU 'is not none or a whole percentage from 1% to 100000%' none 0 1% 100000% -- \
    25 % 0% 100001% -5% 2.5% 25%% '"25 %"' half
}

@test "VhostLimitMemory is none or bytes with K, M or G" {
  takes VhostLimitMemory 'is not none or a number of bytes from 1024K to 1048576G' none 0 1048576 1024k 512M 1048576G -- \
    1048575 1023K 1048577G 1T 1MB M -1M 1.5G 0M lots 99999999999999999999
}

@test "VhostLimitProcesses is none or 1 to 4194304" {
  takes VhostLimitProcesses 'is not none, 0 or a whole number from 1 to 4194304' none 1 4194304 -- 4194305 -1 few 1k
}

@test "VhostLimitIO is none or bytes per second" {
  takes VhostLimitIO 'is not none or a number of bytes from 1K to 1048576G' none 1K 10M 1048576 -- 1023 10M/s
}

@test "VhostLimitOnError is open or closed" {
  takes VhostLimitOnError 'is not one of open, closed' open Closed -- 1
}

@test "each directive with one argument rejects none and two" {
  local name
  for name in VhostLimit VhostLimitWeight VhostLimitConcurrency VhostLimitStatusCode VhostLimitRetryAfter \
    VhostLimitCPU VhostLimitMemory VhostLimitProcesses VhostLimitIO VhostLimitSlots VhostLimitCgroup \
    VhostLimitOnError; do
    rejected "$name" "$name takes one argument"
    rejected "$name 1 2" "$name takes one argument"
    rejected "$name \"\"" "$name takes one argument"
  done
}

@test "limits in a vhost with VhostLimit Off are accepted" {
  check_config -v 'a VhostLimit Off' -v 'a VhostLimitConcurrency 3' -v 'a VhostLimitRetryAfter 5'
  is "$status" 0
}

@test "an invalid value in a vhost stops the start" {
  check_config -v 'b VhostLimitConcurrency -1'
  isnt "$status" 0
  like "$output" "VhostLimitConcurrency: '-1' is not a whole number from 0 to 1000000"
}

@test "an error names the file and the line" {
  check_config 'VhostLimitConcurrency abc'
  like "$output" "Syntax error on line [0-9]+ of .*/httpd\.conf"
}
