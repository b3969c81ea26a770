#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# HestiaCP runs a template's .sh file when it writes a web domain's virtual host:
# USER DOMAIN IP HOME DOCROOT. A new domain is not in web.conf yet. HestiaCP reloads Apache
# itself afterwards.
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
. "$here/list-hestiacp.sh"
"$here/vhostlimit-panel" --add "$(hestiacp_servername "${2:?DOMAIN}"),${1:?USER}" hestiacp
