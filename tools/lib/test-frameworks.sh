# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Applications that are more than a page, with and without the module, and on
# the file systems that --docroot names.

describe_frameworks() {
  local dir name first=''
  test_summary 'siege, 20 users: WordPress, MediaWiki and a Symfony application from packages, on each --docroot'
  test_pages wordpress,mediawiki,symfony
  test_by siege
  test_idle
  test_needs "$(frameworks_needs "${test_option[pages]:-wordpress,mediawiki,symfony}")"
  test_row all@vhostlimit 'rate / that of plain Apache' '>= 0.97' '>= 1.0' 'ratio([.this[].total.rate] | add; [.plain[].total.rate] | add)'
  while read -r dir; do
    name=$(frameworks_scene "$dir")
    test_scene "$name"
    test_docroot "$dir"
    test_line 'VhostLimitQueue 1000 60s'
    test_requests 2000 400 100
    test_load users 1 site1 20
    if [[ -z $first ]]; then first=$name; else frameworks_rows "$name" "$first"; fi
  done <<<"${test_option[docroots]:-/var/tmp}"
}

# The Symfony application has no database.
frameworks_needs() { # <page,...>
  [[ ,$1, == ,symfony, ]] || echo mariadb
  echo "${1//,/ }"
}

frameworks_scene() { local name=${1#/}; printf '%s\n' "${name//[^a-zA-Z0-9.]/-}"; }    # <folder>

frameworks_rows() { # <scene> <the first one>
  local time="ratio(this(\"$1\") | .seconds; this(\"$2\") | .seconds)"
  test_row all "time on $1 / on $2" '' '' "$time"
  test_source '"GlusterFS performance on different frameworks", blog.lavoie.sl, 6 December 2013: 45 to 449 % longer than the local disk, with Symfony, WordPress and Drupal.'
  test_published all "time on $1 / on $2, theirs at least" 1.45 '' "$time"
  test_published all "time on $1 / on $2, theirs at most" 5.49 '' "$time"
}
