#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
printf 'Content-Type: text/plain\r\n\r\nHello, world\n'
