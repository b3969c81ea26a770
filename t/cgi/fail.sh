#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Ends without output: Apache responds with 500.

exit 1
