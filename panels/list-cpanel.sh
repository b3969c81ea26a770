# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sites of cPanel, from its documentation; untested on a server with cPanel.
# /etc/userdatadomains has lines "DOMAIN: USER==OWNER==TYPE==...". An addon domain is an alias
# of the subdomain that belongs to it. /var/cpanel/users/USER has a line PLAN=...

list_cpanel() {
  local root=${CPANEL_ROOT-}
  [[ -e $root/etc/userdatadomains ]] || { say "there is no $root/etc/userdatadomains: is cPanel installed?"; return 1; }
  awk -v users="$root/var/cpanel/users/" '
    {
      at = index($0, ": ")
      if (!at || split(substr($0, at + 2), field, "==") < 3 || field[3] !~ /^(main|sub)$/)
        next
      user = field[1]
      if (!(user in plan)) {
        plan[user] = ""
        while ((getline line <(users user)) > 0)
          if (line ~ /^PLAN=/) plan[user] = substr(line, 6)
        close(users user)
      }
      site = substr($0, 1, at - 1)
      sub(/^[*]/, "_wildcard_", site)
      printf "%s\t%s\t%s\n", site, user, plan[user]
    }' "$root/etc/userdatadomains"
}
