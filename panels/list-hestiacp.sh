# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sites of HestiaCP. $HESTIA/data/users/USER has user.conf with a line PACKAGE='...', and
# web.conf with one line for each web domain that begins with DOMAIN='...'. Neither is run.

list_hestiacp() {
  local users=${HESTIA:-/usr/local/hestia}/data/users files lines other domain rest
  [[ -d $users ]] || { say "there is no $users: is HestiaCP installed?"; return 1; }
  mapfile -t files < <(find "$users" -mindepth 2 -maxdepth 2 \( -name user.conf -o -name web.conf \) | sort)
  ((${#files[@]})) || return 0
  # user.conf of a user stands before web.conf.
  lines=$(LC_ALL=C awk -v q="'" '
    function value(key) {
      if (!match($0, "(^| )" key "=" q "[^" q "]*" q))
        return ""
      split(substr($0, RSTART, RLENGTH), part, q)
      return part[2]
    }
    FNR == 1 { n = split(FILENAME, path, "/"); if (path[n - 1] != user) package = ""; user = path[n - 1] }
    path[n] == "user.conf" && /^PACKAGE=/ { package = value("PACKAGE"); printf "\t%s\t%s\n", user, package }
    path[n] == "web.conf" && (domain = value("DOMAIN")) != "" { printf "%s\t%s\t%s\n", domain, user, package }' "${files[@]}")
  other=$(LC_ALL=C grep $'^[^\t]*[^\ta-zA-Z0-9.*_-]' <<<"$lines" || true)
  if [[ -z $other ]]; then printf '%s\n' "$lines"; return; fi
  LC_ALL=C grep -v $'^[^\t]*[^\ta-zA-Z0-9.*_-]' <<<"$lines" || true
  while IFS=$'\t' read -r domain rest; do
    printf '%s\t%s\n' "$(hestiacp_servername "$domain")" "$rest"
  done <<<"$other"
}

# HestiaCP writes names with other letters than ASCII in their encoded form, with idn2.
hestiacp_servername() { # <domain>
  if [[ $1 == *[!a-zA-Z0-9.*_-]* ]]; then LC_ALL=C.UTF-8 idn2 --quiet "$1" 2>/dev/null || echo "$1"; else echo "$1"; fi
}
