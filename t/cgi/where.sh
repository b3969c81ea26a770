#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Prints its cgroups.

printf 'Content-Type: text/plain\r\n\r\n'
cat /proc/self/cgroup
