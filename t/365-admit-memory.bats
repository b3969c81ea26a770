#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The memory of a child process for sites that it has no requests of.

load lib/live

@test "prefork: an idle child uses no more memory with ten thousand vhosts than with ten" {
  [[ ! ${VL_SANITIZER-} ]] || skip "a sanitizer has memory of its own"
  local few many
  few=$(private_memory 10)
  many=$(private_memory 10000)
  echo "# private memory of an idle child: $few kB with 10 vhosts, $many kB with 10000" >&3
  at_most "$many" $((few + 100)) "kB with ten thousand vhosts"
}

# Starts prefork with the vhosts and stops it. Prints the private memory of the child with
# the least of it, in kB: it has served nothing.
private_memory() { # <number>
  vhosts "$1" >"$BATS_TEST_TMPDIR/vhosts.conf"
  start_httpd -m prefork 'VhostLimit On' 'VhostLimitCgroup off' -t 'StartServers 4' -t 'MinSpareServers 4' \
    -x "Include \"$BATS_TEST_TMPDIR/vhosts.conf\""
  wait_until 10 has_children 4
  is "$(get a /page.html)" 200 "answer"
  httpd_children | while read -r pid; do sed -n 's/^Private_Dirty: *\([0-9]*\) kB/\1/p' "/proc/$pid/smaps_rollup"; done |
    sort -n | sed -n 1p
  stop_httpd
}

has_children() { (($(httpd_children | wc -l) >= $1)); }

vhosts() { # <number>
  local i port
  port=$(httpd_port)
  for ((i = 1; i <= $1; i++)); do
    printf '<VirtualHost 127.0.0.1:%s>\nServerName shop%d.example\nDocumentRoot "%s/htdocs/a"\n</VirtualHost>\n' \
      "$port" "$i" "$HTTPD_ROOT"
  done
}
