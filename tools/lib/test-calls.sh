# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Pages that ask the same server for another page, as WordPress does for its scheduled jobs.
# The outer request waits for the inner one, so the inner one must not wait for the outer one.
# The inner page is PHP of 1 ms, in "cheap" a static one.  In "varnish" Apache passes each
# request over https to Varnish, and gets it back over http.  In "sites" a page of one site asks
# for a page of the other one.

describe_calls() {
  local scene
  test_summary "pages that ask their own site for a page, beside 200 static users: over http, with VhostLimitConcurrency 4, over https, through Varnish; pages that ask another site"
  test_pages mixed
  test_sites 2
  test_fpm_children 160
  test_idle
  test_seconds 60 30 24         # a request that gets no slot is refused after 10 s, perhaps with the warm-up
  for scene in own cheap limited tls varnish; do
    test_scene "$scene"
    case $scene in
      limited) test_site site1 'VhostLimitConcurrency 4' ;;
      tls) test_tls ;;
      varnish)
        test_tls both
        test_front varnish
        ;;
    esac
    test_load caller 1 site1 20 0 100 "$(calls_page "$scene")"
    test_load static 2 site2 200 0 100 static
    test_rows_beside_plain "$scene" caller -- static
  done
  test_scene sites
  test_load caller 1 site1 50 0 100 call2
  test_load called 2 site2 50 0 100 burn2
  test_rows_beside_plain sites caller -- called
}

calls_page() { case $1 in varnish) echo burn1 ;; cheap) echo call1-static ;; *) echo call1 ;; esac; }   # <scene>
