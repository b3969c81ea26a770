#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# TLS in small pieces, and invalid TLS.

load lib/live
load lib/tls

setup() { requires mod_ssl openssl; }

# Prints the ClientHello with one record for each byte.
hello_of_bytes() { # <host>
  local hex
  hex=$(client_hello "$1" | sed 's/\\x//g')
  printf %s "${hex:10}" | sed 's/../1603010001&/g; s/../\\x&/g'
}

# Prints the type of the response's first record: 16 is a ServerHello, 15 an alert.
first_of() { od -An -tx1 -N1 | tr -d ' '; }

@test "a ClientHello in records of one byte is queued for its vhost and answered" {
  start_tls 'VhostLimit On' 'VhostLimitQueue 100 30s' 's: VhostLimitConcurrency 1'
  is "$(tls_packets "$(hello_of_bytes s.test)" @take:1 @reset | first_of)" 16
  hold_request busy s
  tls_packets "$(hello_of_bytes s.test)" @take:1 @reset >"$BATS_TEST_TMPDIR/hello" 3>&- 4>&- &
  settles s waiting 1
  is "$(get t /page.html)" 200 "another vhost"
  release_request busy
  wait $!
  is "$(first_of <"$BATS_TEST_TMPDIR/hello")" 16
}

@test "a ClientHello in packets of one byte is answered" {
  start_tls 'VhostLimit On'
  is "$(tls_packets @bytes:1 "$(client_hello s.test)" @take:1 @reset | first_of)" 16
}

not_tls() {
  local bytes
  for bytes in '\x16\x03\x01\x00\x00' '\x16\x03\x01\x00\x05\x02aaaa' '\x16\x03\x01\xff\xff\x01' '\x16\x03\x01\x00\x04\x01\xff\xff\xff' '\x16\x16\x16'; do
    tls_packets "$bytes" @half | od -An -tx1
    echo .
  done
}

@test "invalid TLS gets the response of plain Apache" {
  local plain
  start_tls -n
  plain=$(not_tls)
  like "$plain" '15 03 0'
  stop_httpd
  start_tls 'VhostLimit On'
  is "$(not_tls)" "$plain"
}
