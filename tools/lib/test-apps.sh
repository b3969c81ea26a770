# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Back ends that are not PHP-FPM.  An application of 20 ms for each page, with 50 users, beside
# 20 users of another site's PHP of 20 ms, and beside 20 users of its static page.  CPU time is
# what the kernel counted for the processes of each back end.

apps_kinds=(wsgi fcgid gunicorn uwsgi passenger)

describe_apps() {
  local kind neighbor page=app20
  test_summary 'applications of 20 ms in mod_wsgi, mod_fcgid, gunicorn, uWSGI and Passenger beside PHP and static pages of another site; charged CPU time'
  test_pages mixed
  test_sites 2
  test_pools master
  test_fpm_children 20
  test_seconds 60 25 8
  for kind in "${apps_kinds[@]}"; do
    page=app20
    [[ $kind != fcgid ]] || page=burn20
    for neighbor in php static; do
      test_scene "$kind-$neighbor"
      test_appserver "$kind"
      test_load app 1 site1 50 0 100 "$page"
      test_load "$neighbor" 2 site2 20 0 100 "$(if [[ $neighbor == php ]]; then echo burn20; else echo static; fi)"
      apps_rows "$kind-$neighbor" "$neighbor"
    done
  done
}

apps_rows() { # <scene> <neighbor>
  if [[ $2 == php ]]; then test_rows_beside_plain "$1" php -- app; else test_rows_beside_plain "$1" -- app static; fi
  test_row all "$1: app site's CPU time / that on plain Apache" '' '' \
    "ratio(this(\"$1\") | backend_cpu(\"app\"); plain(\"$1\") | backend_cpu(\"app\"))"
  [[ $2 != php ]] || test_row all "$1: app site's part of the back ends' CPU time" '<= 0.55' '<= 0.52' \
    "this(\"$1\") | ratio(backend_cpu(\"app\"); backend_cpu(\"app\") + backend_cpu(\"php\"))"
  test_row all "$1: CPU time charged to the app / that its processes used" '>= 0.9' '>= 0.95' "this(\"$1\") | charged_of_used(\"app\")"
  test_row all "$1: CPU time charged to the app / that its processes used, at most" '<= 1.2' '<= 1.1' "this(\"$1\") | charged_of_used(\"app\")"
}
