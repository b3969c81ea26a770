#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Prints its scheduling policy, as a number (sched(7), proc(5)).

printf 'Content-Type: text/plain\r\n\r\n'
cut -d ' ' -f 41 /proc/self/stat
