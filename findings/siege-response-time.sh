#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# siege 4.1.6, each response takes 0.1 s, nine of ten have status 503.
# Expected (manual page): "Response time" is the average time of a response, 0.10. "Transactions"
#   counts all requests, and "Availability" counts only socket failures, so it is 100 %.
# Seen: the time of all responses is divided by the number of those without an error. "Response time"
#   is ten times that of "Longest transaction". Transactions and Availability leave out status 503.

. "$(dirname "$0")/lib.sh"
root trixie siege=4.1.6-1 python3

measure() {
  backend
  echo >"$ROOT/w/siegerc"
  for status in 200 503{,,,,,,,,}; do echo "http://127.0.0.1:8001/0.1?$status"; done >"$ROOT/w/urls"
  HOME=/w in_root siege -R /w/siegerc -b -c 2 -r 50 -f /w/urls >"$ROOT/w/out" 2>&1
  # Times in hundredths of a second, as siege prints them.
  value() { sed -n "s/^$1:[[:space:]]*\([0-9]*\)\.\{0,1\}\([0-9]*\).*/\1\2/p" "$ROOT/w/out" | sed 's/^0*\(.\)/\1/'; }
  seen "$(value Transactions) transactions and $(value 'Failed transactions') failed ones, availability $(value Availability) hundredths of a percent" \
    "$(value Transactions) == 10 && $(value 'Failed transactions') == 90 && $(value Availability) == 1000"
  seen "response time: mean $(value 'Response time'), longest $(value 'Longest transaction') hundredths of a second" \
    "$(value 'Response time') > 3 * $(value 'Longest transaction')"
}

isolated measure
