# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Customers of DirectAdmin, from its documentation; untested on a server with DirectAdmin.
# The group is in the virtual hosts, by the template directadmin-cust_httpd.CUSTOM.2.pre, so
# the lines have no site. user.conf of a user has a line package=...

list_directadmin() {
  local users=${DIRECTADMIN:-/usr/local/directadmin}/data/users folder package
  [[ -d $users ]] || { say "there is no $users: is DirectAdmin installed?"; return 1; }
  for folder in "$users"/*/; do
    folder=${folder%/}
    [[ -e $folder/user.conf ]] || continue
    package=$(sed -n 's/^package=//p' "$folder/user.conf")
    printf '\t%s\t%s\n' "${folder##*/}" "${package%%$'\n'*}"
  done
}
