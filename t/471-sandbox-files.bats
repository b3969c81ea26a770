#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# VhostLimitSandbox Files: what a site's programs may do with files.

load lib/live
load lib/sandbox

# Not below /tmp, which programs in Files may write to.
HTTPD_ROOT=/run/vl-sandbox-files

setup() { requires root landlock; }

files() { start_httpd 'VhostLimit On' "$PROGRAMS" -v 'a VhostLimitSandbox Files' "$@"; }

@test "a program reads the system, writes to its site and to /tmp, and finds no other site" {
  files
  chmod 777 "$HTTPD_ROOT/htdocs/a"
  site_program a look.sh <<END
head -c 1 /etc/hosts >/dev/null && echo system
date >"$HTTPD_ROOT/htdocs/a/new" && echo site
file=\$(mktemp) && rm "\$file" && echo tmp
cat "$HTTPD_ROOT/htdocs/b/index.html" || echo no other
date 2>/dev/null >/etc/new || echo read-only
END
  like "$(run_program a look.sh)" $'^system\nsite\ntmp\n[^\n]*Permission denied\nno other\n.*read-only$'
  [[ ! -e /etc/new ]]
}

@test "the programs of a ScriptAlias run, and cannot be changed" {
  files
  chmod 777 "$HTTPD_ROOT/cgi"
  printf '#!/bin/sh\nprintf "Content-Type: text/plain\\r\\n\\r\\n"\ndate >"%s/cgi/new" || echo refused\n' "$HTTPD_ROOT" >"$HTTPD_ROOT/cgi/try.sh"
  chmod 755 "$HTTPD_ROOT/cgi/try.sh"
  is "$(run_program a cgi/try.sh)" refused
}

@test "VhostLimitSandboxPath opens paths, at server level for all sites" {
  mkdir -p /run/vl-open/{all,a}
  echo 1 >/run/vl-open/all/file
  echo 2 >/run/vl-open/a/file
  files 'VhostLimitSandbox Files' 'VhostLimitSandboxPath ro /run/vl-open/all' -v 'a VhostLimitSandboxPath rw /run/vl-open/a'
  local site
  for site in a b; do site_program "$site" look.sh <<<'cat /run/vl-open/all/file /run/vl-open/a/file 2>/dev/null'; done
  is "$(run_program a look.sh)" $'1\n2'
  is "$(run_program b look.sh)" 1
}

@test "a site without a sandbox sees what it saw, on the same threads" {
  files
  local _
  site_program a look.sh <<<"cat '$HTTPD_ROOT/htdocs/b/index.html' 2>/dev/null || echo no"
  site_program c look.sh <<<"cat '$HTTPD_ROOT/htdocs/b/index.html' 2>/dev/null || echo no"
  for _ in {1..20}; do
    is "$(run_program a look.sh) $(run_program c look.sh)" 'no index of b'
  done
}

@test "programs run in the cgroup of their site too" {
  requires cgroups
  files -v 'a VhostLimitProcesses 50'
  like "$(run_program a cgi/where.sh)" "$(httpd_cgroup)/a.test"
}
