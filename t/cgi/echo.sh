#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Answers with the length of the body it was sent.

length=$(wc -c)
printf 'Content-Type: text/plain\r\n\r\n%s bytes\n' "$((length))"
