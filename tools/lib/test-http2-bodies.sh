# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Streams that wait for their clients hold no slot.

describe_http2-bodies() {
  local scene
  test_summary '100 HTTP/2 streams of one site, PHP, beside uploads of 1 MB, and beside downloads of 1 MB with windows of 16 KB'
  test_pages mixed
  test_tls
  test_scene uploads
  test_by h2load 10
  test_load victim 1 site1 100 0 100 php
  test_by h2load 20:upload
  test_load noisy 2 site2 500 0 100 php
  test_load noisy 3 site2 500 0 100 php
  test_scene windows
  test_by h2load 10
  test_load victim 1 site1 100 0 100 php
  test_by h2load 20:window=14
  test_load noisy 2 site2 500 0 100 large
  test_load noisy 3 site2 500 0 100 large
  for scene in uploads windows; do
    test_row all "$scene: victim's rate / its rate on plain Apache" '>= 1' '>= 2' \
      "ratio(this(\"$scene\") | site(\"victim\").rate; plain(\"$scene\") | site(\"victim\").rate)"
    test_row all "$scene: noisy site's rate / its rate on plain Apache" '' '' \
      "ratio(this(\"$scene\") | site(\"noisy\").rate; plain(\"$scene\") | site(\"noisy\").rate)"
    test_row_failures all "$scene"
  done
}
