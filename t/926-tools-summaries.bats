#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sar-summary.sh and siege-summary.sh: their output and their errors.
# shellcheck disable=SC2154  # stderr is of bats

bats_require_minimum_version 1.5.0
load lib/common

setup_file() {
  export RECORD=$BATS_FILE_TMPDIR/record
  ! command -v sar >/dev/null || sar -o "$RECORD" 1 3 >/dev/null 2>&1
}

setup() { cd "$BATS_TEST_TMPDIR" || return; }

need_sar() { need_program sar && need_program jq; }

summary() { # <sar|siege> <argument>...
  run --separate-stderr "$TOP/tools/$1-summary.sh" "${@:2}"
  printf 'status %s\n%s\n%s\n' "$status" "$output" "$stderr"
}

json_is() { # <jq filter> <want>
  is "$(jq -c "$1" <<<"$output")" "$2" "$1"
}

# Checks for one sentence on stderr and nothing on stdout.
refused() { # <words>
  is "$status" 1
  is "$output" ""
  is "$(wc -l <<<"$stderr")" 1 "lines on stderr"
  [[ $stderr == *"$1"* ]] || fail "not on stderr: $1"
}

# Prints sar's own average of the column.
average_of() { # <column> <option>...
  sar "${@:2}" -f "$RECORD" | awk -v name="$1" '
    !column { for (i = 1; i <= NF; i++) if ($i == name) column = i; next }
    $1 == "Average:" { print $column }'
}

near() { # <got> <want> <by>
  awk -v got="$1" -v want="$2" -v by="$3" 'BEGIN { d = got - want; exit !(want != "" && d <= by && -d <= by) }' ||
    fail "got $1, want $2"
}

with_comma() { # <command>...: in a locale, made here, where decimals have a comma
  env LOCPATH="$PWD/locales" LANG=de_DE.UTF-8 LC_ALL=de_DE.UTF-8 "$@"
}

make_locale() {
  [[ -e /usr/share/i18n/locales/de_DE ]] || skip "no sources of locales"
  mkdir -p locales
  localedef -i de_DE -f UTF-8 ./locales/de_DE.UTF-8 2>/dev/null || skip "localedef cannot make de_DE.UTF-8"
  is "$(with_comma "$BASH" -c 'printf %.1f 1,5')" 1,5
  [[ $(with_comma sar -u -f "$RECORD") =~ [0-9],[0-9]{2} ]] || fail "sar itself does not know the locale"
}

of_another_version() { # [format]: the record, as if of sysstat 11.7 unless another is given
  head -c 2 "$RECORD"
  printf '%b' "${1-\x71\x21}"
  tail -c +5 "$RECORD"
}

# Installs a sadf that prints the output of another version.
another_sadf() { # <commands>
  mkdir -p bin
  printf '#!/bin/bash\n%s\n' "$1" >bin/sadf
  chmod +x bin/sadf
  : >old
  PATH=$PWD/bin:$PATH
}

old_json() {
  cat <<'END'
{"sysstat": {"hosts": [{"nodename": "far", "sysname": "Linux", "release": "4.15.0", "number-of-cpus": 12, "statistics": [
 {"timestamp": {"date": "2018-05-01", "time": "10:00:05", "utc": 1, "interval": 5},
  "cpu-load": [{"cpu": "all", "user": 10.00, "nice": 0.00, "system": 5.00, "iowait": 1.00, "steal": 4.00, "idle": 80.00},
               {"cpu": "2", "user": 1.00, "nice": 0.00, "system": 0.00, "iowait": 0.00, "steal": 0.00, "idle": 99.00},
               {"cpu": "11", "user": 2.00, "nice": 0.00, "system": 0.00, "iowait": 0.00, "steal": 0.00, "idle": 98.00}],
  "queue": {"runq-sz": 3, "plist-sz": 200, "ldavg-1": 1.00, "ldavg-5": 0.50, "ldavg-15": 0.25, "blocked": 1}},
 {"timestamp": {"date": "2018-05-01", "time": "10:00:20", "utc": 1, "interval": 15},
  "cpu-load": [{"cpu": "all", "user": 50.00, "nice": 0.00, "system": 5.00, "iowait": 1.00, "steal": 4.00, "idle": 40.00},
               {"cpu": "2", "user": 1.00, "nice": 0.00, "system": 0.00, "iowait": 0.00, "steal": 0.00, "idle": 99.00},
               {"cpu": "11", "user": 2.00, "nice": 0.00, "system": 0.00, "iowait": 0.00, "steal": 0.00, "idle": 98.00}],
  "queue": {"runq-sz": 6, "plist-sz": 200, "ldavg-1": 1.00, "ldavg-5": 0.50, "ldavg-15": 0.25, "blocked": 0}}
]}]}}
END
}

@test "sar: the averages equal sar's" {
  requires sar
  summary sar --json "$RECORD"
  is "$status" 0
  json_is '.samples' 3
  local name
  for name in user nice system iowait steal idle; do
    # sar weights by ticks, and seconds differ by a few ticks.
    near "$(jq ".cpu.all.$name" <<<"$output")" "$(average_of "%$name" -u)" 3
  done
  near "$(jq .memory.used_kb <<<"$output")" "$(average_of kbmemused -r)" 1
  near "$(jq .memory.used_percent <<<"$output")" "$(average_of %memused -r)" 0.05
  near "$(jq .queue.load_1 <<<"$output")" "$(average_of ldavg-1 -q)" 0.05
  near "$(jq .queue.running <<<"$output")" "$(average_of runq-sz -q)" 1
  [[ ! -e /proc/pressure/cpu ]] || json_is '.pressure | map(.some >= 0 and .some <= 100) | all' true
}

@test "sar: the table has the figures of the JSON, and each CPU with -P only" {
  requires sar
  summary sar --json -P "$RECORD"
  json_is '.cpu | length - 1' "$(jq .cpus <<<"$output")"
  local idle
  idle=$(jq .cpu.all.idle <<<"$output")
  summary sar "$RECORD"
  is "$status" 0
  like "$output" $'CPU, % +user +nice +system +iowait +steal +idle\nall '
  near "$(awk '$1 == "all" { print $7 }' <<<"$output")" "$idle" 0.05
  like "$output" 'memory +used'
  [[ ! $output =~ $'\n'0\  ]] || fail "CPU 0 without -P"
  summary sar -P "$RECORD"
  like "$output" $'\n0 +[0-9.]+ '
}

@test "sar: the error has a remedy where sadf prints in another language" {
  requires sar
  make_locale
  of_another_version >old
  run --separate-stderr with_comma "$TOP/tools/sar-summary.sh" old
  refused 'sadf -c old >'
}

@test "both: the output does not change in a locale with decimal commas" {
  requires sar
  make_locale
  siege_plain >plain
  local here tool file
  for tool in sar siege; do
    file=plain
    [[ $tool == siege ]] || file=$RECORD
    summary "$tool" "$file"
    here=$output
    run --separate-stderr with_comma "$TOP/tools/$tool-summary.sh" "$file"
    is "$status" 0
    is "$output" "$here"
  done
}

@test "sar: CPU is averaged over time, CPUs are sorted, and missing values are left out" {
  old_json >json
  another_sadf "cat '$PWD/json'"
  summary sar --json -P old
  json_is '[.cpus, .seconds, .cpu.all.user, .cpu.all.idle, .cpu.all.steal, .queue.running]' '[12,20,40,50,4,4.5]'
  json_is '[.cpu | keys_unsorted, .memory, .pressure]' '[["all","2","11"],null,null]'
  summary sar old
  is "$status" 0
  [[ ! $output =~ memory|pressure ]] || fail "not in the record: $output"
  like "$output" $'\nall {18}40\.00 +0\.00 +5\.00 +1\.00 +4\.00 +50\.00\n'
}

@test "sar: a sadf without pressure values is used without them" {
  old_json >json
  another_sadf "[[ \$* != *ALL ]] || { echo 'Usage: sadf' >&2; exit 1; }; cat '$PWD/json'"
  summary sar --json old
  is "$status" 0
  json_is .queue.load_15 0.25
}

@test "sar: a record of another version is rejected with a remedy" {
  requires sar
  local format
  for format in '\x71\x21' '\x99\x99'; do
    of_another_version "$format" >old
    summary sar old
    refused 'sadf -c old >'
  done
}

@test "sar: a record of a newer version of the same format, which sadf reads as empty, is rejected with both versions" {
  requires sar
  local here
  here=$(sadf -V 2>&1 | sed -n 's/^sysstat version //p')
  # The version is in bytes 5 to 7.
  { head -c 4 "$RECORD"; printf '\14\143\11'; tail -c +8 "$RECORD"; } >new
  another_sadf "if [[ \$1 == -j ]]; then echo '{\"sysstat\": {\"hosts\": [{\"statistics\": []}]}}'; else $(type -P sadf) \"\$@\"; fi"
  summary sar new
  refused "new was written by a newer sysstat (12.99.9, here is $here): read it on the machine that wrote it"
  summary sar "$RECORD"
  refused 'has none of the requested samples'
}

@test "sar: compressed files and text are rejected with a remedy" {
  requires sar
  local packer
  for packer in gzip xz bzip2 zstd; do
    type -P "$packer" >/dev/null || continue
    "$packer" -c "$RECORD" >packed
    summary sar packed
    refused "it is compressed. Decompress it first ($packer -dc packed >NEW)"
  done
  sar -u -f "$RECORD" >sar27
  summary sar sar27
  refused 'it is text. The record is the file that sar -o or sadc wrote'
}

@test "both: a locale that is not installed, as ssh may forward it, does not matter" {
  requires sar
  siege_plain >plain
  local tool file
  for tool in sar siege; do
    file=plain
    [[ $tool == siege ]] || file=$RECORD
    LC_ALL=xx_YY summary "$tool" "$file"
    is "$status" 0
    is "$(grep -vc '^bash: \|^/usr/bin/env: ' <<<"$stderr")" 0 "lines on stderr after bash's own"
  done
}

@test "sar: a truncated or foreign file is rejected" {
  requires sar
  local size cut file
  size=$(stat -c %s "$RECORD")
  for cut in 0 10 300 $((size / 2)) $((size * 3 / 4)) $((size - 200)); do
    head -c "$cut" "$RECORD" >short
    summary sar short
    refused 'is not a complete sar record'
  done
  ls -l / >text
  sar -u -f "$RECORD" >columns
  echo '{"sysstat":{}}' >json
  for file in text columns json; do
    summary sar "$file"
    refused "$file is not a complete sar record"
  done
  for file in missing / .; do
    summary sar "$file"
    refused "$file is not a file that can be read"
  done
}

@test "sar: a file may have a name that is an argument of sadf" {
  requires sar
  cp "$RECORD" 12
  cp "$RECORD" ./-1
  summary sar --json 12
  json_is .samples 3
  summary sar --json -- -1
  json_is .samples 3
}

siege_plain() {
  cat <<'END'
** SIEGE 4.0.4
** Preparing 100 concurrent users for battle.
The server is now under siege...
Lifting the server siege...
Transactions:		       85123 hits
Availability:		       99.98 %
Elapsed time:		      299.42 secs
Data transferred:	      913.47 MB
Response time:		        0.35 secs
Transaction rate:	      284.29 trans/sec
Throughput:		        3.05 MB/sec
Concurrency:		       99.12
Successful transactions:       85123
Failed transactions:	          17
Longest transaction:	       27.46
Shortest transaction:	        0.01
 
END
}

# 4.1.7: milliseconds, other columns.
siege_plain_new() {
  siege_plain | sed -e 's/4\.0\.4/4.1.7/' -e 's/hits/   hits/' -e 's/0\.35 secs/350.25 ms/' \
    -e 's/27\.46/27460.00 ms/' -e '/^Shortest/s/0\.01/10.00 ms/'
}

# <opening>: 4.0.7 has the first key on the line of the brace, 4.0.9 and newer on the next
# line.
siege_json() {
  echo 'New configuration template added to /home/user/.siege'
  printf '%b"transactions":\t\t\t       85123,\n' "$1"
  cat <<'END'
	"availability":			       99.98,
	"elapsed_time":			      299.42,
	"data_transferred":		      913.47,
	"response_time":		        0.35,
	"transaction_rate":		      284.29,
	"throughput":			        3.05,
	"concurrency":			       99.12,
	"successful_transactions":	       85123,
	"failed_transactions":		          17,
	"longest_transaction":		       27.46,
	"shortest_transaction":		        0.01
}
FILE: /var/log/siege.log
END
}

@test "siege: JSON and plain text of each version give the same values" {
  siege_plain >plain; siege_plain_new >plain-new; siege_json '{\t' >json; siege_json '{\n\t' >json-new
  sed 's/$/\r/' plain >plain-crlf
  summary siege --json plain plain-new json json-new plain-crlf
  is "$status" 0
  json_is 'map(.file)' '["plain","plain-new","json","json-new","plain-crlf"]'
  json_is 'map([.transactions, .failures, .availability, .rate, .elapsed_s, .longest_s, .concurrency]) | unique' \
    '[[85123,17,99.98,284.29,299.42,27.46,99.12]]'
  json_is 'map(.mean_s)' '[0.35,0.35025,0.35,0.35,0.35]'
}

@test "siege: the output may have any page bodies (siege -p)" {
  siege_plain >plain; siege_plain_new >plain-new; siege_json '{\t' >json; siege_json '{\n\t' >json-new
  siege_json '{\t' | sed '1d; /rate/,$d' >part
  printf '%s\n' '{"a": 1,' '"b": 2}' '{' '"transactions": 3,' '"availability": "all"' '}' '"transaction_rate": 1' 'Transactions: 9 hits' 'Elapsed time: 1 secs' >api
  printf '\0\1\377{\r\n{' >binary
  local file
  for file in plain plain-new json json-new; do
    cat part api binary "$file" >"$file-bodies"
    cat "$file" part api binary >"$file-end"
    summary siege --json "$file" "$file-bodies" "$file-end"
    is "$status" 0
    json_is 'map(del(.file)) | unique | length' 1
  done
}

@test "siege: a time of 0 is shown as less than 10 ms, its unit" {
  siege_json '{\t' | sed '/response_time/s/0\.35/0.00/' >json
  siege_plain_new | sed '/^Response/s/350\.25/0.00/' >plain
  summary siege json plain
  like "${lines[1]}" '^json .* < 10 ms +27\.46 s'
  like "${lines[2]}" '^plain .* < 10 ms +27\.46 s'
}

@test "siege: the table has one line for each file" {
  siege_plain >plain; siege_json '{\t' >'of another machine'
  summary siege plain 'of another machine'
  is "$status" 0
  is "${#lines[@]}" 3
  like "${lines[0]}" '^file +transactions +failed +availability +rate +response +longest +concurrency$'
  like "${lines[1]}" '^plain +85123 +17 +99\.98 % +284\.29/s +350 ms +27\.46 s +99\.12$'
  like "${lines[2]}" '^of another machine +85123 '
}

@test "siege: a run without successful transactions is accepted" {
  requires siege
  HOME=$PWD siege -j -b -c1 -r2 http://127.0.0.1:1/ >none 2>&1 || true
  summary siege --json none
  is "$status" 0
  json_is '.[0] | [.transactions, .failures]' '[0,2]'
}

@test "siege: a truncated file, a foreign one, and one with two runs are rejected" {
  local kind cut file
  siege_plain >plain; siege_json '{\t' >json; ls -l / >text; head -c 4096 "$BASH" >binary
  for kind in plain json; do
    for cut in 0 1 4 6 10; do
      head -n "$cut" "$kind" >short
      summary siege short
      refused 'short is not a complete siege summary'
    done
    grep -v '^.*[Ss]hortest' "$kind" >short
    summary siege short
    refused 'short is not a complete siege summary'
    cat "$kind" "$kind" >twice
    summary siege "$kind" twice
    refused 'twice is not a complete siege summary'
  done
  for file in text binary; do
    summary siege "$file"
    refused "$file is not a complete siege summary"
  done
  summary siege missing
  refused 'missing is not a file that can be read'
}

@test "both: no file, or too many, is a usage error" {
  local tool
  for tool in sar siege; do
    summary "$tool"
    is "$status" 2
    like "$stderr" "Try '$tool-summary\\.sh --help'\\."
  done
  summary sar one two
  is "$status" 2
}

@test "both: root is not needed" {
  requires root sar
  siege_plain >plain
  chmod 644 plain "$RECORD"
  run setpriv --reuid 65534 --regid 65534 --clear-groups "$TOP/tools/siege-summary.sh" /dev/stdin <plain
  is "$status" 0
  run setpriv --reuid 65534 --regid 65534 --clear-groups "$TOP/tools/sar-summary.sh" /dev/stdin <"$RECORD"
  is "$status" 0
}

need_siege() { need_program siege && need_program jq; }
