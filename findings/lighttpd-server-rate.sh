#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# lighttpd 1.4.79, server.kbytes-per-second = 100 for a virtual host, four downloads of it.
# Expected: each download gets a part of the 100 KB/s, about 25 KB/s.
# Seen: the limit is given out once a second to the connection that comes first. The first download
#   has nearly all of it. At least two of the others get no byte and no header, for as long as the first one runs.

. "$(dirname "$0")/lib.sh"
root trixie lighttpd=1.4.79-2 curl

measure() {
  head -c 3000000 /dev/zero >"$ROOT/w/download"
  cat >"$ROOT/w/lighttpd.conf" <<'END'
server.document-root = "/w"
server.bind = "127.0.0.1"
server.port = 80
server.errorlog = "/w/error.log"
$HTTP["host"] == "site.example" {
  server.kbytes-per-second = 100
}
END
  chroot "$ROOT" lighttpd -D -f /w/lighttpd.conf &
  until_listening 80
  for number in {1..4}; do
    in_root curl -s -m 6 -o "/w/out.$number" -w '%{size_download}\n' -H 'Host: site.example' http://127.0.0.1/download >"$ROOT/w/bytes.$number" &
    sleep 0.3
  done
  sleep 7
  mapfile -t bytes < <(cat "$ROOT"/w/bytes.*)
  zero=0
  for number in {1..3}; do ((bytes[number] > 0)) || ((zero += 1)); done
  seen "bytes in 6 s: ${bytes[*]}" "bytes[0] > 300000 && zero >= 2"
}

isolated measure
