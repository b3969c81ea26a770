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

@test "VhostLimit accepts On, Off and DryRun in upper and lower case" {
  accepted 'VhostLimit On' 'VhostLimit off' 'VhostLimit DRYRUN'
}

@test "VhostLimit: the error lists the accepted values" {
  rejected 'VhostLimit maybe' "VhostLimit: 'maybe' is not one of On, Off, DryRun"
  rejected 'VhostLimit "On "' "VhostLimit: 'On ' is not one of On, Off, DryRun"
}

@test "VhostLimitConcurrency accepts 0 to 1000000" {
  accepted 'VhostLimitConcurrency 0' 'VhostLimitConcurrency 1' 'VhostLimitConcurrency 1000000'
}

@test "VhostLimitConcurrency rejects other numbers and words" {
  local value
  for value in abc -1 1000001 1.5 5x '" 5"' 99999999999999999999 0x10; do
    rejected "VhostLimitConcurrency $value" \
      "VhostLimitConcurrency: '${value//\"/}' is not a whole number from 0 to 1000000"
  done
}

@test "VhostLimitStatusCode accepts 503, 429 and 508" {
  accepted 'VhostLimitStatusCode 503' 'VhostLimitStatusCode 429' 'VhostLimitStatusCode 508'
}

@test "VhostLimitStatusCode: the error lists the accepted values" {
  local value
  for value in 404 50 5030 abc 200; do
    rejected "VhostLimitStatusCode $value" "VhostLimitStatusCode: '$value' is not one of 503, 429, 508"
  done
}

@test "VhostLimitRetryAfter accepts auto, off and 1 to 86400" {
  accepted 'VhostLimitRetryAfter auto' 'VhostLimitRetryAfter Off' 'VhostLimitRetryAfter 1' \
    'VhostLimitRetryAfter 86400'
}

@test "VhostLimitRetryAfter: the error lists the accepted values" {
  local value
  for value in 0 86401 -5 soon 10s; do
    rejected "VhostLimitRetryAfter $value" \
      "VhostLimitRetryAfter: '$value' is not auto, off or a whole number of seconds from 1 to 86400"
  done
}

@test "VhostLimitCgroup accepts auto, off and a path" {
  accepted 'VhostLimitCgroup auto' 'VhostLimitCgroup off' 'VhostLimitCgroup /web/vhosts'
}

@test "VhostLimitCgroup rejects a path that is not absolute" {
  local value
  for value in x web/vhosts ./x; do
    rejected "VhostLimitCgroup $value" "VhostLimitCgroup: '$value' is not auto, off or an absolute cgroup path"
  done
}

@test "VhostLimitCgroup rejects a path with .." {
  rejected 'VhostLimitCgroup /../x' "VhostLimitCgroup: '/../x' is not"
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

@test "VhostLimitWeight accepts 1 to 10000" {
  accepted 'VhostLimitWeight 1' 'VhostLimitWeight 100' 'VhostLimitWeight 10000'
}

@test "VhostLimitWeight: the error names the accepted range" {
  local value
  for value in 0 10001 -1 heavy 1.5 50%; do
    rejected "VhostLimitWeight $value" \
      "VhostLimitWeight: '$value' is not a whole number from 1 to 10000"
  done
}

@test "VhostLimitQueue accepts 0 to 1000000, and a time from 1ms to 1h" {
  accepted 'VhostLimitQueue 0' 'VhostLimitQueue 1000000' 'VhostLimitQueue 5 1ms' \
    'VhostLimitQueue 5 10' 'VhostLimitQueue 5 10s' 'VhostLimitQueue 5 2min' 'VhostLimitQueue 5 1h'
}

@test "VhostLimitQueue: the error for a number names the accepted range" {
  local value
  for value in -1 1000001 many 5.5; do
    rejected "VhostLimitQueue $value 5s" \
      "VhostLimitQueue: '$value' is not a whole number from 0 to 1000000"
  done
}

@test "VhostLimitQueue: the error for a time names the accepted range" {
  local value
  for value in 0 0ms 3601 2h -5s soon 5parsec; do
    rejected "VhostLimitQueue 100 $value" "VhostLimitQueue: '$value' is not a time from 1ms to 1h"
  done
}

@test "VhostLimitQueue needs one or two arguments" {
  rejected 'VhostLimitQueue' 'VhostLimitQueue takes 1-2 arguments'
  rejected 'VhostLimitQueue 1 2 3' 'VhostLimitQueue takes 1-2 arguments'
}

@test "VhostLimitSlots accepts auto and 1 to 100000" {
  accepted 'VhostLimitSlots auto' 'VhostLimitSlots Auto' 'VhostLimitSlots 1' 'VhostLimitSlots 100000'
}

@test "VhostLimitSlots: the error lists the accepted values" {
  local value
  for value in 0 100001 -1 off 2.5; do
    rejected "VhostLimitSlots $value" \
      "VhostLimitSlots: '$value' is not auto or a whole number from 1 to 100000"
  done
}

@test "VhostLimitCPU accepts none and 1% to 100000%" {
  accepted 'VhostLimitCPU none' 'VhostLimitCPU 0' 'VhostLimitCPU 1%' 'VhostLimitCPU 100000%'
}

@test "VhostLimitCPU: the error lists the accepted values" {
  local value
  for value in 25 % 0% 100001% -5% 2.5% 25%% '"25 %"' half; do
    rejected "VhostLimitCPU $value" \
      "VhostLimitCPU: '${value//\"/}' is not none or a whole percentage from 1% to 100000%"
  done
}

@test "VhostLimitMemory accepts none and bytes with K, M or G" {
  accepted 'VhostLimitMemory none' 'VhostLimitMemory 0' 'VhostLimitMemory 1048576' \
    'VhostLimitMemory 1024k' 'VhostLimitMemory 512M' 'VhostLimitMemory 1048576G'
}

@test "VhostLimitMemory: the error lists the accepted values" {
  local value
  for value in 1048575 1023K 1048577G 1T 1MB M -1M 1.5G 0M lots 99999999999999999999; do
    rejected "VhostLimitMemory $value" "VhostLimitMemory: '$value' is not none or a number of bytes from 1024K to 1048576G"
  done
}

@test "VhostLimitProcesses accepts none and 1 to 4194304" {
  accepted 'VhostLimitProcesses none' 'VhostLimitProcesses 1' 'VhostLimitProcesses 4194304'
}

@test "VhostLimitProcesses: the error lists the accepted values" {
  local value
  for value in 4194305 -1 few 1k; do
    rejected "VhostLimitProcesses $value" \
      "VhostLimitProcesses: '$value' is not none, 0 or a whole number from 1 to 4194304"
  done
}

@test "VhostLimitIO accepts none and bytes per second; the error lists them" {
  accepted 'VhostLimitIO none' 'VhostLimitIO 1K' 'VhostLimitIO 10M' 'VhostLimitIO 1048576'
  rejected 'VhostLimitIO 1023' "VhostLimitIO: '1023' is not none or a number of bytes from 1K to 1048576G"
  rejected 'VhostLimitIO 10M/s' "VhostLimitIO: '10M/s' is not none"
}

@test "VhostLimitOnError accepts open and closed; the error lists them" {
  accepted 'VhostLimitOnError open' 'VhostLimitOnError Closed'
  rejected 'VhostLimitOnError 1' "VhostLimitOnError: '1' is not one of open, closed"
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
