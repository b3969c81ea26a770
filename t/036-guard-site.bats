#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The documentation as a site (mkdocs): every page is in it, and every link has a target.

load lib/common
load lib/guard

need_mkdocs() { need_program mkdocs; }

setup_file() {
  meets mkdocs || return 0
  SITE=$BATS_FILE_TMPDIR/site
  export SITE
  (cd "$TOP" && mkdocs build --strict --site-dir "$SITE") >"$BATS_FILE_TMPDIR/log" 2>&1 || {
    cat "$BATS_FILE_TMPDIR/log"
    return 1
  }
}

setup() { requires mkdocs; }

@test "mkdocs builds the site, and every page of docs is in its navigation" {
  [[ -s $SITE/index.html && -s $SITE/design/000-overview.html ]]
  ! grep 'not included in the "nav"' -A 20 "$BATS_FILE_TMPDIR/log" || fail "pages are missing in mkdocs.yml"
}

@test "each link to a part of a page leads to a heading" {
  local from links target
  links=$(found 5 "links to parts of pages" part_links)
  while read -r from target; do
    page_has "$from" "$target" || fail "$from: $target"
  done <<<"$links"
}

part_links() { # -> page and target, a line each
  (cd "$SITE" && grep -roE --include='*.html' 'href="[^":]*#[^"]+"' . | sed 's/:href="/ /; s/"$//' | sort -u)
}

page_has() { # <page> <target>
  local page=${2%%#*} id=${2#*#}
  [[ -n $page ]] || page=${1##*/}
  grep -q "id=\"$id\"" "$SITE/${1%/*}/$page"
}
