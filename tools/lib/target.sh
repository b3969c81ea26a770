# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# What is measured side by side.  A target has a title and a way to start it.

target_kinds=(plain vhostlimit limits40 limits20)

# Process limits, as they were before there were shares: each site so many
# requests at once, and what comes beyond is refused.
target_process_limits() { # <requests>
  printf '%s\n' 'VhostLimitCgroup off' 'VhostLimitQueue 0' "VhostLimitSlots ${bed[workers]}" "VhostLimitConcurrency $1"
}

# The one place that says how the module is configured when it is measured:
# added to conf/testbed/vhostlimit.conf.in.  Nothing: "VhostLimit On" is all a
# user writes, so that is what is measured; bench.sh -D adds lines.
target_vhostlimit_lines=''

target_known() { [[ " ${target_kinds[*]} " == *" $1 "* ]]; }

target_title() { # <target>
  case $1 in
    plain) echo 'plain Apache' ;;
    vhostlimit) echo 'mod_vhostlimit' ;;
    limits*) echo "process limits ${1#limits}:${1#limits}" ;;
  esac
}

target_lines() { # <target> <the test's lines for the module>: its configuration, one line
  local lines=$'VhostLimit On\n'$target_vhostlimit_lines$'\n'$2
  case $1 in
    plain) echo 'no limits' ;;
    limits*) target_process_limits "${1#limits}" | target_one_line ;;
    vhostlimit) target_one_line <<<"$lines" ;;
  esac
}

target_one_line() { sed '/^$/d' | paste -sd ';' | sed 's/;/; /g'; }

target_start() { # <target> <the test's lines for the module>
  case $1 in
    plain) bed_switch off '' ;;
    limits*) bed_switch on "$(target_process_limits "${1#limits}")" ;;
    vhostlimit) bed_switch on "$target_vhostlimit_lines"$'\n'"$2" ;;
  esac
}
