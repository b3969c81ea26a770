#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Forty megabytes, as fast as they are taken.

printf 'Content-Type: application/octet-stream\r\n\r\n'
head -c 40000000 /dev/zero
