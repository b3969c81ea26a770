# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# What is compared in a measurement.  A target has a title and a way to start it.

target_kinds=(plain plain-best vhostlimit mod_qos haproxy nginx process-limit user-connections bubblewrap sandbox-full sandbox-files)

# Lines for the module besides those of conf/testbed/vhostlimit.conf.in.  There are none
# by default, because "VhostLimit On" is what a user writes; bench.sh -D sets them.
target_vhostlimit_lines=''

target_configure() { target_vhostlimit_lines=$1; }      # <lines>

target_known() { [[ " ${target_kinds[*]} " == *" $1 "* ]]; }

target_is_module() { [[ $1 == @(vhostlimit|sandbox-*) ]]; }       # <target>

# The alternatives to the module divide Apache's workers evenly among the sites; see
# docs/design/002-toolkit.md.

# An equal part of the capacity that plain Apache has, see test_capacity: requests a second.
target_rate() { awk -v all="${trial[capacity]}" -v sites="${bed[sites]}" 'BEGIN { n = int(all / sites); print (n > 1 ? n : 1) }'; }

target_packages() { # <target>...: roles
  local target
  for target; do
    case $target in mod_qos | haproxy | nginx | bubblewrap) echo "$target" ;; esac
  done
}

target_title() { # <target>
  case $1 in
    plain) echo 'plain Apache' ;;
    plain-best) echo 'plain Apache, its best number of threads' ;;
    vhostlimit) echo 'mod_vhostlimit' ;;
    sandbox-*) echo "mod_vhostlimit, sandbox ${1#sandbox-}" ;;
    haproxy) echo 'HAProxy in front' ;;
    nginx) echo 'nginx in front' ;;
    process-limit) echo 'two Apaches' ;;
    user-connections) echo 'a limit of each database user' ;;
    mod_qos | bubblewrap) echo "$1" ;;
  esac
}

target_lines() { # <target> <the test's lines for the module>: its configuration, one line
  local lines=$'VhostLimit On\n'$target_vhostlimit_lines$'\n'$2
  case $1 in
    plain | plain-best) echo 'no limits' ;;
    vhostlimit) target_one_line <<<"$lines" ;;
    sandbox-*) target_one_line <<<"$lines"$'\n'"VhostLimitSandbox ${1#sandbox-}" ;;
    mod_qos) echo "QS_LocRequestLimitDefault $(bed_part) in each vhost; conf/testbed/mod_qos.conf.in" ;;
    haproxy) echo "a backend for each vhost, maxconn $(bed_part), timeout queue 10s; conf/testbed/haproxy-sites.conf.in" ;;
    nginx) echo "for each site limit_req $(target_rate)r/s with 10 s of burst, limit_conn $(bed_part); conf/testbed/nginx.conf.in" ;;
    process-limit) bed_instances | awk '{ printf "%s%s with MaxRequestWorkers %s", sep, NR == 1 ? "site1" : "the other sites", $4; sep = "; " }' ;;
    user-connections) echo "MariaDB: max_user_connections=$(bed_connections); PostgreSQL: CONNECTION LIMIT $(bed_connections)" ;;
    bubblewrap) echo 'plain Apache, each CGI in a bubblewrap of its own' ;;
  esac
}

target_one_line() { sed '/^$/d' | paste -sd ';' | sed 's/;/; /g'; }

target_port() { # <target> <site>: as it stands in an address
  if [[ $1 == process-limit && $2 != site1 ]]; then echo :81; fi
}

target_prepare() { # <target>: once, when the bed is up
  case $1 in bubblewrap) sandbox_prepare ;; esac
}

target_start() { # <target> <the test's lines for the module>
  case $1 in
    plain | plain-best) bed_switch off '' ;;
    bubblewrap) bed_switch off "$(sandbox_lines)" ;;
    vhostlimit) bed_switch on "$target_vhostlimit_lines"$'\n'"$2" ;;
    sandbox-*) bed_switch on "$target_vhostlimit_lines"$'\n'"$2"$'\n'"VhostLimitSandbox ${1#sandbox-}" ;;
    mod_qos) target_start_mod_qos ;;
    haproxy) bed_set front=sites; bed_switch off '' ;;
    nginx) bed_set front=nginx rate="$(target_rate)"; bed_switch off '' ;;
    process-limit) bed_set instances=2; bed_switch off '' ;;
    user-connections) bed_set connections="$(bed_connections)"; bed_switch off '' ;;
  esac
}

# mod_qos of Debian 12 needs libpcre3 and is not linked with it.
target_start_mod_qos() {
  local site load
  load=$(httpd_load_lines "$(httpd_binary)" qos)
  ! grep -q 'libpcre\.so\.3 ' <<<"$(ldconfig -p)" || load=$'LoadFile libpcre.so.3\n'$load
  for site in "${bed_sites[@]}"; do
    bed_set "$site=QS_LocRequestLimitDefault $(bed_part)"
  done
  template_render "$(in_tree conf/testbed/mod_qos.conf.in)" "$bed_dir/mod_qos.conf" LOAD="$load"
  bed_switch off "$(<"$bed_dir/mod_qos.conf")"
}
