# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# wrk with a random host name in each request: one of 50000 names below that of the site.

hosts_version() { wrk_version; }
hosts_prepare() { wrk_prepare; }

hosts_words() { # as wrk_words
  wrk_words "$@"
  load_words+=(-- 50000)
}

hosts_run() { # <client> <users> <length> <keepalive> <url> <file prefix>
  hosts_words "$(load_dir)" "${@:2:4}"
  client_exec "$1" "${load_words[@]}" >"$6.hosts" 2>"$6.err"
}

hosts_record() { wrk_parse "$1.err"; }   # <file prefix>
