# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sites of HestiaCP. $HESTIA/data/users/USER has user.conf with a line PACKAGE='...', and
# web.conf with one line for each web domain that begins with DOMAIN='...'. Neither is run.

list_hestiacp() {
  local users=${HESTIA:-/usr/local/hestia}/data/users folder user package domain domains
  [[ -d $users ]] || { say "there is no $users: is HestiaCP installed?"; return 1; }
  for folder in "$users"/*/; do
    folder=${folder%/} user=${folder##*/}
    [[ -e $folder/user.conf ]] || continue
    package=$(sed -n "s/^PACKAGE='\([^']*\)'.*/\1/p" "$folder/user.conf")
    package=${package%%$'\n'*}
    printf '\t%s\t%s\n' "$user" "$package"
    [[ -e $folder/web.conf ]] || continue
    domains=$(sed -n "s/^\(.* \)\{0,1\}DOMAIN='\([^']*\)'.*/\2/p" "$folder/web.conf")
    for domain in $domains; do
      printf '%s\t%s\t%s\n' "$(hestiacp_servername "$domain")" "$user" "$package"
    done
  done
}

# HestiaCP writes names with other letters than ASCII in their encoded form, with idn2.
hestiacp_servername() { # <domain>
  if [[ $1 == *[!a-zA-Z0-9.*_-]* ]]; then idn2 --quiet "$1" || echo "$1"; else echo "$1"; fi
}
