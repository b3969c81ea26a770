#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Takes a little time and hardly any CPU.

sleep 0.01
printf 'Content-Type: text/plain\r\n\r\nawake\n'
