#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The guides: their configuration is valid, and their links and names exist.

load lib/common
load lib/httpd
load lib/guard

GUIDES=$TOP/docs/guides

# Prints the n-th block of configuration of a guide.
block() { # <file> <number>
  awk -v want="$2" '/^```/ { if (!inside && $0 == "```apache") n++; inside = !inside; next }
    inside && n == want' "$1"
}

blocks_in() { grep -c '^```apache$' "$1" || :; }  # <file>

# Prints options that load all modules that a guide may use.
guide_modules() {
  local module
  for module in authz_host authz_user authn_core authn_file auth_basic macro remoteip proxy proxy_fcgi; do
    printf -- '-l\n%s\n' "$module"
  done
}

@test "the server accepts each block of configuration in the guides" {
  local file n modules seen=0
  mapfile -t modules < <(guide_modules)
  make_room
  for file in "$GUIDES"/*.md "$GUIDES"/symptoms/*.md; do
    for ((n = 1; n <= $(blocks_in "$file"); n++)); do
      # The folder of logs is that of the test's server.
      block "$file" "$n" | sed 's,"/var/log/apache2/,"logs/,' >"$HTTPD_ROOT/block.conf"
      check_config "${modules[@]}" -x "Include \"$HTTPD_ROOT/block.conf\""
      is "$status" 0 "${file##*/}, block $n"
      seen=$((seen + 1))
    done
  done
  at_least "$seen" 10 "blocks found"
}

@test "each VhostLimit directive in the guides exists" {
  local name code named
  code=$(found 5 "directives of the module" directives_of_module)
  named=$(found 5 "directives that guides name" named_directives)
  for name in $named; do
    grep -qx "$name" <<<"$code" || fail "$name: no such directive"
  done
}
named_directives() { grep -ohE '\bVhostLimit[A-Z]?[A-Za-z]*' "$GUIDES"/*.md "$GUIDES"/symptoms/*.md "$TOP/README.md" | sort -u; }

# Prints "FILE TARGET" for each relative link in the documents. Code is no link.
relative_links() {
  (cd "$TOP" && find README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md t/README.md docs -name '*.md' -exec awk '
    FNR == 1 { fenced = 0 }
    /^ *```/ { fenced = !fenced }
    fenced || /^    / { next }
    { gsub(/`[^`]*`/, "")
      while (match($0, /\]\([^) ]+\)/)) {
        target = substr($0, RSTART + 2, RLENGTH - 3)
        $0 = substr($0, RSTART + RLENGTH)
        if (target !~ /^[a-z]+:/) print FILENAME, target
      } }' {} +)
}

# Prints the names that GitHub gives the headings of a page.
headings_of() { # <file>
  sed -nE 's/^#+ +//p' "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

@test "each relative link in the documents leads to a file, and to a heading of it" {
  local links from target path part
  links=$(found 200 "links" relative_links)
  while read -r from target; do
    path=${target%%#*} part=
    [[ $target != *#* ]] || part=${target#*#}
    if [[ -n $path ]]; then path=$TOP/$(dirname "$from")/$path; else path=$TOP/$from; fi
    [[ -e $path ]] || fail "$from: $target: not there"
    [[ -z $part ]] || grep -qxF -- "$part" <<<"$(headings_of "$path")" || fail "$from: $target: no such heading"
  done <<<"$links"
}

@test "each document that a source, a script or a text names exists" {
  local path paths
  paths=$(found 10 "paths" named_documents)
  for path in $paths; do
    [[ -e $TOP/$path ]] || fail "$path: not there"
  done
  paths=$(found 2 "files to install" installed_files)
  for path in $paths; do
    [[ -e $TOP/conf/systemd/$path ]] || fail "conf/systemd/$path: not there"
  done
}
named_documents() {
  (cd "$TOP" && grep -rohE --include='*.'{md,h,c,sh,bash,bats,conf,am,ac,in,awk,service} --exclude=CHANGELOG.md \
    --exclude-dir='.[a-z]*' '\bdocs/[a-z0-9/-]+\.md\b' .) | sort -u
}
installed_files() { sed -nE 's/^ +sudo install .* ([a-z0-9@-]+(\.[a-z]+)?) \/.*$/\1/p' "$GUIDES"/*.md "$GUIDES"/symptoms/*.md; }

@test "each key of the status page in the guides is documented" {
  local key keys
  keys=$(found 2 "keys" named_keys)
  for key in $keys; do
    grep -q "\`vhosts\[\]\.$key\`" "$TOP/docs/reference/status.md" || fail "$key: not in docs/reference/status.md"
  done
}
named_keys() { grep -ohE "\`(refused_[a-z]+|would_[a-z]+|[a-z]+_us|cpu_[a-z]+_permille)\`" "$GUIDES"/*.md "$GUIDES"/symptoms/*.md | tr -d '\140' | sort -u; }

@test "systemd accepts the example units" {
  requires systemd_analyze
  local dir=$BATS_TEST_TMPDIR name
  # The targets that they need: units of other packages may have errors.
  for name in sysinit basic shutdown network multi-user; do echo '[Unit]' >"$dir/$name.target"; done
  sed 's|/usr/local/sbin/in-vhost|/bin/true|' "$TOP/conf/systemd/vhostlimit-fpm@.service" >"$dir/vhostlimit-fpm@.service"
  printf '[Service]\nExecStart=/bin/true\n' >"$dir/apache2.service"
  mkdir "$dir/apache2.service.d"
  cp "$TOP"/conf/systemd/apache2-*.conf "$dir/apache2.service.d/"
  cp "$TOP/conf/systemd/web.slice" "$dir/"
  SYSTEMD_UNIT_PATH=$dir try systemd-analyze verify --man=no "$dir/apache2.service" "$dir/web.slice" "$dir/vhostlimit-fpm@a.service"
  is "$status" 0
  is "$(grep -E "$dir|Unknown|ignoring" <<<"$output")" "" "complaints"
}

need_systemd_analyze() { need_program systemd-analyze; }
