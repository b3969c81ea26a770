#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Virtualmin's command to run after changes to a server (System Settings, Virtualmin
# Configuration, Actions upon server and user creation). VIRTUALSERVER_ACTION has the change.
# Virtualmin may have reloaded Apache before.
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
case ${VIRTUALSERVER_ACTION:-} in
  CREATE_DOMAIN | MODIFY_DOMAIN | DELETE_DOMAIN | CLONE_DOMAIN | RESTORE_DOMAIN | SSL_DOMAIN)
    exec "$here/vhostlimit-panel" --reload virtualmin
    ;;
esac
