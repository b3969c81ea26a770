#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# VhostLimitSandbox Full: what a site's programs find, and how long its namespaces live.

load lib/live
load lib/sandbox

setup() { requires root userns landlock; }

full() { start_httpd 'VhostLimit On' "$PROGRAMS" 'VhostLimitSandbox Off' -v 'a VhostLimitSandbox Full' "$@"; }

@test "a program finds the system, its site and a /tmp of its own, and no other site" {
  full
  echo outside >"$BATS_TEST_TMPDIR/outside"
  site_program a look.sh <<END
test -r /etc/hosts && echo system
test -r "$HTTPD_ROOT/htdocs/a/index.html" && echo site
ls -d "$HTTPD_ROOT/htdocs"/*
touch /tmp/mine && ls /tmp/mine "$BATS_TEST_TMPDIR"
touch /etc/new || echo read-only
END
  local out
  out=$(run_program a look.sh)
  like "$out" $'^system\nsite\n'"$HTTPD_ROOT/htdocs/a"$'\nls: [^\n]*No such file[^\n]*\n/tmp/mine\ntouch: [^\n]*\nread-only$'
  [[ ! -e /tmp/mine ]] || fail "the file is in the machine's /tmp"
}

@test "a program runs as the server's user, in its folder, with its input, its output and its status" {
  full
  # shellcheck disable=SC2016  # for the program
  site_program a echo.sh <<<'id -un; pwd; cat; echo error >&2; echo "query $QUERY_STRING"'
  get a '/echo.sh?x=1' -d body >/dev/null
  is "$(answer_body)" "$(httpd_user)"$'\n'"$HTTPD_ROOT/htdocs/a"$'\nbodyerror\nquery x=1'
  site_program a fail.sh <<<'exit 3'
  is "$(get a /fail.sh)" 200
}

@test "the private /tmp and the processes of a site last over a graceful restart" {
  full
  site_program a put.sh <<<'echo here >/tmp/kept'
  site_program a have.sh <<<'cat /tmp/kept'
  run_program a put.sh
  graceful_httpd
  is "$(run_program a have.sh)" here
  keepers_are 1
}

@test "the namespaces are made again when the configuration of the site changes" {
  full
  site_program a put.sh <<<'echo here >/tmp/kept'
  site_program a have.sh <<<'cat /tmp/kept'
  run_program a put.sh
  configure_httpd 'VhostLimit On' "$PROGRAMS" -v 'a VhostLimitSandbox Full' -v "a VhostLimitSandboxPath ro $HTTPD_ROOT/lua"
  graceful_httpd
  like "$(run_program a have.sh)" 'No such file'
  wait_until 20 keepers_are 1
}

@test "a request that runs during a graceful restart ends in the namespaces in which it began" {
  full
  site_program a slow.sh <<END
echo begun >/tmp/kept; touch "$HTTPD_ROOT/htdocs/a/begun"
while [ ! -e "$HTTPD_ROOT/htdocs/a/go" ]; do :; done
cat /tmp/kept
END
  chmod 777 "$HTTPD_ROOT/htdocs/a"
  web -o "$BATS_TEST_TMPDIR/slow" "$(url a /slow.sh)" &
  wait_until 10 test -e "$HTTPD_ROOT/htdocs/a/begun"
  configure_httpd 'VhostLimit On' "$PROGRAMS" -v 'a VhostLimitSandbox Full' -v "a VhostLimitSandboxPath ro $HTTPD_ROOT/lua"
  graceful_httpd
  touch "$HTTPD_ROOT/htdocs/a/go"
  wait "$!"
  is "$(<"$BATS_TEST_TMPDIR/slow")" begun
}

@test "no namespace is left after the end, nor after a crash of all processes" {
  full -v 'b VhostLimitSandbox Full'
  keepers_are 2
  stop_httpd
  keepers_are 0
  launch_httpd
  keepers_are 2
  crash_httpd
  wait_until 10 keepers_are 0
  cgroup_remove "$(httpd_cgroup)"
}

export LOG_MAY_SAY='no keeper'
@test "a program does not start where its sandbox has ended, and a restart makes it again" {
  full
  site_program a hello.sh <<<'echo hello'
  is "$(run_program a hello.sh)" hello
  kill -KILL "$(keepers)"
  wait_until 20 keepers_are 0
  is "$(get a /hello.sh)" 500
  error_log_has 'a program was not started.*sandbox'
  graceful_httpd
  is "$(run_program a hello.sh)" hello
}

@test "a program that runs for longer than its client waits is killed with all that it holds" {
  full 'Timeout 1'
  site_program a long.sh <<<'exec sleep 1000'
  get a /long.sh >/dev/null || :            # the answer is cut off
  wait_until 20 no_sleep
}
no_sleep() { ! pgrep -f '^sleep 1000$' >/dev/null; }

@test "VhostLimitSandboxPath opens, hides and replaces paths, and the longest path counts" {
  mkdir -p /run/vl-paths/open/shut
  echo 1 >/run/vl-paths/open/file
  echo 1 >/run/vl-paths/open/shut/file
  echo 1 >/run/vl-paths/open/secret
  chmod -R a+rwX /run/vl-paths
  full -v 'a VhostLimitSandboxPath rw /run/vl-paths/open' -v 'a VhostLimitSandboxPath hide /run/vl-paths/open/shut /run/vl-paths/open/secret' \
    -v 'a VhostLimitSandboxPath tmp /opt'
  site_program a look.sh <<<'cd /run/vl-paths; cat open/file; ls open/shut; cat open/secret; touch open/new && echo wrote; touch /opt/new && echo own'
  is "$(run_program a look.sh)" $'1\ncat: open/secret: Permission denied\nwrote\nown'
  [[ -e /run/vl-paths/open/new && ! -e /opt/new ]]
}

@test "http and https of a site have one sandbox, with the documents of both" {
  start_httpd 'VhostLimit On' "$PROGRAMS" -v 'a VhostLimitSandbox Full' -x "Listen 127.0.0.3:$(httpd_port)
<VirtualHost 127.0.0.3:$(httpd_port)>
  ServerName a.test:$(httpd_port)
  DocumentRoot \"$HTTPD_ROOT/lua\"
</VirtualHost>"
  site_program a look.sh <<<"ls -d '$HTTPD_ROOT/lua' '$HTTPD_ROOT/htdocs/a'"
  is "$(run_program a look.sh)" "$HTTPD_ROOT/htdocs/a"$'\n'"$HTTPD_ROOT/lua"
  keepers_are 1
}

@test "the programs of a site's own ScriptAlias run, and those of another site's are not there" {
  local site
  full -v "a ScriptAlias /own/ $HTTPD_ROOT/own-a/" -v "b ScriptAlias /own/ $HTTPD_ROOT/own-b/"
  for site in a b; do
    mkdir "$HTTPD_ROOT/own-$site"
    printf '#!/bin/sh\nprintf "Content-Type: text/plain\\r\\n\\r\\n"; ls -d %s/own-*\n' "$HTTPD_ROOT" >"$HTTPD_ROOT/own-$site/x"
    chmod 755 "$HTTPD_ROOT/own-$site/x"
  done
  graceful_httpd                # a path that does not exist when the server starts is left out
  is "$(run_program a own/x)" "$HTTPD_ROOT/own-a"
}

@test "another site's documents inside of the site's are hidden" {
  full -v "b DocumentRoot $HTTPD_ROOT/htdocs/a/sub"
  site_program a look.sh <<<"ls sub"
  site_program a/sub look.sh <<<"ls"
  is "$(run_program a look.sh)" ''
  like "$(run_program b look.sh)" 'index.html'
}

@test "a site with VhostLimit Off keeps its sandbox" {
  full -v 'a VhostLimit Off'
  site_program a look.sh <<<'ls -d /proc/[0-9]*'
  like "$(run_program a look.sh)" '^/proc/1'$'\n'
  [[ $(run_program a look.sh | wc -l) -le 4 ]]
}

@test "programs over HTTP/2, in included pages and in error documents run in the sandbox" {
  requires mod_http2 curl_http2 mod_include
  full -l http2 -l include 'Protocols h2c http/1.1' -v 'a AddOutputFilter INCLUDES .shtml' -v 'a ErrorDocument 404 /in.sh'
  site_program a in.sh <<<'ls -d /sys/fs 2>/dev/null || echo inside'
  echo '<!--#include virtual="in.sh" --><!--#exec cmd="ls -d /sys/fs 2>/dev/null || echo inside" -->' >"$HTTPD_ROOT/htdocs/a/x.shtml"
  is "$(web --http2-prior-knowledge "$(url a /in.sh)")" inside
  is "$(web "$(url a /x.shtml)" | grep -c '^inside')" 2
  is "$(web "$(url a /none)")" inside
}
