# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# wrk with a random host name in each request, one below that of the site.
#
# A load is hosts, or hosts:N, with N names (50000).

hosts_version() { wrk_version; }
hosts_prepare() { wrk_prepare; }

hosts_words() { # see load.sh
  local names=$7
  [[ $names =~ ^[1-9] ]] || names=50000
  wrk_words "${@:1:5}"
  load_words+=(-- "$names")
}

hosts_record() { wrk_parse "$1.err"; }   # <file prefix>
