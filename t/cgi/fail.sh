#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A script that dies without a word: Apache makes a 500 of it.

exit 1
