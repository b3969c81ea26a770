#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A script for cPanel's standardized hooks, from its documentation; untested on a server with
# cPanel. cPanel sends JSON, which is not needed, and reads "1" or "0" and a message.
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
cat >/dev/null
if said=$("$here/vhostlimit-panel" --reload cpanel 2>&1); then
  printf '1 %s\n' "${said//$'\n'/ }"
else
  printf '0 %s\n' "${said//$'\n'/ }"
fi
