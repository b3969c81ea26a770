#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Prints two hundred megabytes.

printf 'Content-Type: application/octet-stream\r\n\r\n'
head -c 200000000 /dev/zero
