# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What is measured side by side.  A target has a title and a way to start it.

target_kinds=(plain vhostlimit bubblewrap lighttpd)

# The one place that says how the module is configured when it is measured:
# added to conf/testbed/vhostlimit.conf.in.  Nothing: "VhostLimit On" is all a
# user writes, so that is what is measured; bench.sh -D adds lines.
target_vhostlimit_lines=''

target_known() { [[ " ${target_kinds[*]} " == *" $1 "* ]]; }

target_title() { # <target>
  case $1 in
    plain) echo 'plain Apache' ;;
    vhostlimit) echo 'mod_vhostlimit' ;;
    bubblewrap | lighttpd) echo "$1" ;;
  esac
}

target_lines() { # <target> <the test's lines for the module>: its configuration, one line
  local lines=$'VhostLimit On\n'$target_vhostlimit_lines$'\n'$2
  case $1 in
    plain) echo 'no limits' ;;
    bubblewrap) echo 'plain Apache, each CGI in a bubblewrap of its own' ;;
    lighttpd) echo 'no limits, the same PHP-FPM' ;;
    vhostlimit) sed '/^$/d' <<<"$lines" | paste -sd ';' | sed 's/;/; /g' ;;
  esac
}

target_packages() { # <target>: roles beside those that each test needs
  case $1 in bubblewrap | lighttpd) echo "$1" ;; esac
}

target_server() { # <target>: whose NAME.conf it runs with
  case $1 in lighttpd) echo lighttpd ;; *) echo httpd ;; esac
}

target_prepare() { # <target>: once, when the bed is up
  case $1 in bubblewrap) sandbox_prepare ;; esac
}

target_start() { # <target> <the test's lines for the module>
  case $1 in
    plain) bed_switch off '' ;;
    bubblewrap) bed_switch off "$(sandbox_lines)" ;;
    lighttpd) lighttpd_start ;;
    vhostlimit) bed_switch on "$target_vhostlimit_lines"$'\n'"$2" ;;
  esac
}
