#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The other published tests, from end to end: cgi, and pages and frameworks if their
# servers are installed.
#
# needs: jansson expat
# shellcheck disable=SC2030,SC2031,SC2154  # output and stderr are of bats, within one test

bats_require_minimum_version 1.5.0
load lib/common
load lib/live

BENCH=$TOP/tools/bench.sh

need_namespaces() { # for the test bed
  # shellcheck disable=SC2015  # the second may fail as the first does
  ip netns add vl-probe 2>/dev/null && ip netns del vl-probe || { echo "no network namespaces"; return 1; }
}
need_gnuplot()    { need_program gnuplot; }
need_bubblewrap() { need_program bwrap; }
need_bed()        { need_root && need_namespaces && need_program sar && need_program jq && need_gnuplot; }
need_lighttpd()   { need_program lighttpd; }
need_postgresql() { compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || { echo "no PostgreSQL"; return 1; }; }
need_php()        { "$(php_fpm_program)" -m | grep -x "$1" >/dev/null || { echo "no $1 for PHP"; return 1; }; }
need_pgsql()      { need_php pgsql; }
need_systemd()    { [[ -x /lib/systemd/systemd ]] || { echo "no systemd"; return 1; }; }
need_siege()      { need_program siege; }
need_symfony()    { [[ -e /usr/share/php/Symfony/Bundle/TwigBundle/TwigBundle.php ]] || { echo "no Symfony"; return 1; }; }

setup() { cd "$BATS_TEST_TMPDIR" || return; }

teardown() { [[ -z ${DOCROOTS-} ]] || rm -rf "$DOCROOTS"; }

bench() { # <argument>...
  run --separate-stderr "$BENCH" --quick --keep-noisy -o out "$@" 3>&-
  printf 'status %s\n%s\n%s\n' "$status" "$output" "$stderr"
}

measured() { # <jq filter> <want>
  is "$(jq -c "$1" out/result.json)" "$2" "$1"
}

nothing_left() {
  [[ ! -e /run/${VL_BED:-vhostlimit-testbed} && ! -e /etc/netns/vl-client1 ]] || fail "the bed is left"
  is "$(compgen -G "/var/tmp/${VL_BED:-vhostlimit-testbed}.*" || true)" '' "folders of applications"
  is "$(ip netns list | grep '^vl-' || true)" '' "namespaces"
}

@test "cgi runs each request in a sandbox over HTTP/2, with the given number of clients" {
  requires bed bubblewrap h2load mod_http2
  bench --target bubblewrap cgi
  [[ $status -ne 77 ]] || skip "$stderr"
  is "$status" 0
  measured '[.runs[] | [.scene, .requests, .clients[0].users, .total.transactions, .total.failures]]' \
    '[["c10",200,10,200,0],["c100-m10",400,1000,400,0]]'
  measured 'all(.runs[]; .commands | any(test(" h2load .*-m(1|10) ")))' true
  measured '[.published[] | select(.unit == "/s") | .published]' '[145,89]'
  like "$output" 'bubblewrap: c10: rate +145\.0/s'
  nothing_left
}

@test "pages: Apache and lighttpd serve the three pages, and PostgreSQL gets its rows" {
  requires bed ab lighttpd postgresql pgsql
  bench --target plain,lighttpd pages
  is "$status" 0
  measured '[.runs[] | [.page, .target, .total.transactions, .total.failures]]' \
    '[["hello","plain",300,0],["hello","lighttpd",300,0],["php","plain",300,0],["php","lighttpd",300,0],["insert","plain",300,0],["insert","lighttpd",300,0]]'
  measured '[.rows[] | select(.target == "lighttpd" and .median > 0)] | length' 3
  nothing_left
}

@test "frameworks: a packaged application runs in each --docroot and is removed afterwards" {
  requires bed siege symfony
  DOCROOTS=$(mktemp -d /var/tmp/vl-docroots.XXXXXX)     # the web server may not enter bats' own
  mkdir "$DOCROOTS"/here "$DOCROOTS"/there
  chmod -R 755 "$DOCROOTS"
  bench --target plain --page symfony --docroot "$DOCROOTS/here" --docroot "$DOCROOTS/there" frameworks
  is "$status" 0
  measured '[.runs[] | [.page, .total.transactions, .total.failures]]' '[["symfony",100,0],["symfony",100,0]]'
  measured '.published | map(.published)' '[1.45,5.49]'
  measured '.options.docroots | map([.folder, .filesystem != ""])' "[[\"$DOCROOTS/here\",true],[\"$DOCROOTS/there\",true]]"
  is "$(find "$DOCROOTS" -mindepth 2)" '' "left in the folders"
  nothing_left
}

@test "unit: an application runs in a pool outside and inside of its unit, under systemd in namespaces" {
  requires long bed siege symfony systemd
  run env PATH="${PATH//"$BATS_LIBEXEC":/}" "$TOP/tools/v2.sh" -n -s 300 "$BENCH" --quick --keep-noisy --page symfony unit 3>&-
  [[ $status != 77 ]] || skip "${lines[-1]}"
  is "$status" 0
  like "$output" 'transactions +100 +100'
  like "$output" 'rate / that outside of the unit +[0-9.]+'
  like "$output" "PHP's CPU time of a response / that outside of the unit +[0-9.]+"
  run "$BENCH" --quick unit
  [[ -d /run/systemd/system ]] || like "$status $output" '^77 .*systemd does not run here'
}

@test "options that a test does not use are rejected" {
  run "$BENCH" --load wrk cgi
  is "$status" 2
  [[ $output == *'the test cgi always uses h2load'* ]] || fail "$output"
  run "$BENCH" --docroot /tmp noisy
  is "$status" 2
  run "$BENCH" --docroot not/full frameworks
  is "$status" 2
  [[ $output == *"'not/full' is not the full path of a folder"* ]] || fail "$output"
}
