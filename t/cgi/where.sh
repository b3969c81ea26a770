#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Tells the groups that it runs in.

printf 'Content-Type: text/plain\r\n\r\n'
cat /proc/self/cgroup
