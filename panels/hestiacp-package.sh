#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# HestiaCP runs PACKAGE.sh when a user is added, rebuilt or gets the package: USER CONTACT
# NAME. user.conf has the new package already. Apache is not reloaded by HestiaCP then.
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
"$here/vhostlimit-panel" --reload hestiacp
