#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Parsers of the output of siege, wrk, h2load, sar and crowd: valid and invalid input. t/926 has the forms of
# siege and sar.

TOP=$(cd -- "$BATS_TEST_DIRNAME/.." && pwd)

setup() { cd "$BATS_TEST_TMPDIR" || return; }

call() { # <room> <function> <argument>...
  run bash -c '. "$1/tools/lib/common.sh"; . "$1/tools/lib/$2.sh"; shift 2; "$@"' - "$TOP" "$@"
  printf 'status %s\n%s\n' "$status" "$output"
}

is() { # <jq filter> <want>; jq 1.7 and newer print a number as they read it
  local got
  got=$(jq -c "$1 | walk(if type == \"number\" then . + 0 else . end)" <<<"$output")
  printf '%s: got %s, want %s\n' "$1" "$got" "$2"
  [ "$got" = "$2" ]
}

refused() { # <words>
  [ "$status" -ne 0 ] && [[ $output == *"$1"* ]] && [ "${#lines[@]}" -eq 1 ]
}

siege_json() {
  cat <<'END'
New configuration template added to /root/.siege
{	"transactions":			        2391,
	"availability":			       66.64,
	"elapsed_time":			        1.93,
	"data_transferred":		        0.01,
	"response_time":		        0.04,
	"transaction_rate":		     1238.86,
	"throughput":			        0.01,
	"concurrency":			        4.88,
	"successful_transactions":	        2391,
	"failed_transactions":		        1197,
	"longest_transaction":		        0.31,
	"shortest_transaction":		        0.00
}
END
}

@test "siege's JSON is parsed" {
  siege_json >summary
  call siege siege_parse summary
  is '[.transactions, .failures, .availability, .mean_s, .longest_s, .p99_s]' '[2391,1197,66.64,0.04,0.31,null]'
}

@test "a mean that siege rounds to 0 is computed from its concurrency" {
  siege_json | sed '/response_time/s/0\.04/0.00/' >summary
  call siege siege_parse summary
  is '.mean_s * 1e6 | floor' 3939
}

@test "the end of a wrk run is parsed, with the sum of all kinds of failures" {
  echo '{"requests":1000,"elapsed":2.0,"status":100,"connect":1,"read":2,"write":3,"timeout":4,"mean":0.01,"longest":0.5,"p50":0.009,"p90":0.1,"p99":0.2,"p999":0.4,"times":[[0.005,50],[0.2,50]]}' >end
  call wrk wrk_parse end
  is '[.transactions, .failures, .rate, .p50_s, .p90_s, .p99_s, .p999_s]' '[900,110,450,0.009,0.1,0.2,0.4]'
  is .times '[[0.005,500],[0.2,500]]'
}

@test "wrk: without a response no time is known" {
  echo '{"requests":0,"elapsed":2.0,"status":0,"connect":0,"read":0,"write":0,"timeout":7,"mean":0.0,"longest":0.0,"p50":0.0,"p90":0.0,"p99":0.0,"p999":0.0,"times":[[0.0,50],[0.0,50]]}' >end
  call wrk wrk_parse end
  is '[.transactions, .failures, .mean_s, .p99_s, .times]' '[0,7,null,null,null]'
}

h2load_end() {
  cat <<'END'
finished in 25.44s, 143.88 req/s, 5.16MB/s
requests: 3615 total, 3697 started, 3615 done, 1646 succeeded, 1969 failed, 18 errored, 0 timeout
status codes: 1640 2xx, 6 3xx, 0 4xx, 1951 5xx
traffic: 128.99MB (135253519) total, 31.47KB (32222) headers (space savings 93.62%), 128.81MB (135067706) data
                     min         max         mean         sd        +/- sd
time for request:     1.94ms       9.93s    546.68ms       1.45s    97.50%
END
}

@test "the end of an h2load run is parsed, with times in seconds" {
  h2load_end >end
  call h2load h2load_parse end
  is '[.transactions, .failures, .elapsed_s, .mean_s, .longest_s, .p99_s]' '[1646,1969,25.44,0.54668,9.93,null]'
}

# nghttp2 1.70: other names of rows, and more columns.
h2load_end_new() {
  h2load_end | sed '/^  /,$d'
  cat <<'END'
                 min         max         median      p95         p99         mean        sd         +/- sd
request     :     1.94ms       9.93s    301.20ms       2.10s       6.48s    546.68ms       1.45s    97.50%
connect     :       40us       163us       101us       163us       163us       101us        86us   100.00%
END
}

@test "the end of an h2load run of nghttp2 1.70 is parsed to the same values" {
  h2load_end >end; h2load_end_new >new
  call h2load h2load_parse end
  local old=$output
  call h2load h2load_parse new
  is '[.transactions, .mean_s, .longest_s]' '[1646,0.54668,9.93]'
  [ "$output" = "$old" ]
}

h2load_counted() {
  cat <<'END'
starting benchmark...
finished in 1.50s, 2.00 req/s, 4.06KB/s
requests: 5 total, 5 started, 5 done, 3 succeeded, 2 failed, 1 errored, 0 timeout
status codes: 3 2xx, 0 3xx, 0 4xx, 1 5xx
                     min         max         mean         sd        +/- sd
time for request:     4.94ms    788.57ms    106.86ms    109.51ms    92.00%
END
  printf '1795275232523025\t200\t30000\n1795275232522920\t503\t900\n1795275232523098\t200\t10000\n1795275232523100\t304\t20000\n' >log
}

@test "the log of an h2load run gives the percentiles" {
  h2load_counted >end
  call h2load h2load_parse end log
  is '[.transactions, .failures, .rate, .elapsed_s, .availability]' '[3,2,2,1.5,60]'
  is '[.mean_s, .p50_s, .p90_s, .p99_s, .p999_s, .longest_s]' '[0.10686,0.02,0.02,0.02,0.02,0.78857]'
  is '[(.times | length), (.times | map(.[1]) | add * 1e6 | round / 1e6)]' '[118,3]'
}

@test "the end of a crowd becomes a record, also without an answer" {
  local at
  at=$(jq -nc '[range(118) / 100]')
  printf '{"begun":12,"good":6,"refused":1,"broken":2,"gave_up":1,"elapsed":2.000000,"timed":8,"mean":0.5,"longest":1.2,"p50":0.4,"p90":0.9,"p99":1.1,"p999":1.2,"at":%s}\n' "$at" >end
  call crowd crowd_parse end
  is '[.transactions, .failures, .rate, .availability, .mean_s, .p99_s, .longest_s]' '[6,4,3,60,0.5,1.1,1.2]'
  is '[.begun, .timed, .untimed]' '[12,8,3]'
  is '[(.times | length), (.times | map(.[1]) | add * 1e6 | round / 1e6)]' '[118,8]'
  echo '{"begun":3,"good":0,"refused":0,"broken":3,"gave_up":0,"elapsed":1.000000}' >nothing
  call crowd crowd_parse nothing
  is '[.transactions, .failures, .p99_s, .times]' '[0,3,null,null]'
  is '[.begun, .timed, .untimed]' '[3,0,3]'
  : >empty
  call crowd crowd_parse empty
  refused "empty is not the complete output of crowd"
}

# shellcheck disable=SC2016  # for the shell of call
@test "a crowd's words: addresses, a rate, patience, pauses, kept connections and WebSockets; any other option is refused" {
  call crowd eval 'bed_more_addresses() { echo "198.19.$1.0"; }; crowd_words /dir 20 3s 0 "http://site1.test/burn.php?ms=2" times addresses=16:rate=0.5:patience=3:pause=1 64 && printf "%s\n" "${load_words[*]}"'
  [ "$output" = '/dir/crowd site1.test 80 /burn.php?ms=2 20 3 from=198.19.64.0 addresses=16 rate=0.5 patience=3 pause=1' ]
  call crowd eval 'crowd_words /dir 20 3s 0 http://site1.test/ times hold:upgrade 1 && printf "%s\n" "${load_words[*]}"'
  [ "$output" = '/dir/crowd site1.test 80 / 20 3 hold=1 upgrade=1' ]
  call crowd eval 'crowd_words /dir 20 3s 0 http://site1.test/ times crowd 1 && printf "%s\n" "${load_words[*]}"'
  [ "$output" = '/dir/crowd site1.test 80 / 20 3' ]
  call crowd crowd_words /dir 20 3s 0 http://site1.test/ times streams=2 1
  refused "unknown option 'streams=2'"
}

@test "wrk: a truncated, empty or foreign file is rejected" {
  echo '{"requests":1000,"elapsed":2.0,"sta' >cut-short
  : >empty
  echo 'unable to connect to site1.test:http Connection refused' >foreign
  for file in cut-short empty foreign; do
    call wrk wrk_parse "$file"
    refused "$file is not the complete output of wrk"
  done
}

@test "percentiles of several clients are computed from all response times" {
  # 1000 responses of 1 to 1000 ms and 3000 of 2 s, as if one client had all 4000.
  run bash -c '. "$1/tools/lib/common.sh"; lib_jq load "
    def client(\$times): [classes as [\$middle, \$percent]
      | [\$times[(\$times | length - 1) * \$middle / 100 | floor], (\$times | length) * \$percent / 100]];
    client([range(1; 1001) / 1000]) + client([range(3000) | 2]) | [percentile(0.05, 0.125, 0.2, 0.2499, 0.5, 0.999)]" -nc' - "$TOP"
  is 'map(. * 100 | round)' '[20,50,80,100,200,200]'
}

@test "h2load: a truncated, empty or foreign file is rejected" {
  h2load_end | sed -n 1,2p >h2load-cut; h2load_end | sed 1,2d >h2load-head; h2load_end | sed '$d' >h2load-untimed
  : >empty
  for file in h2load-cut h2load-head h2load-untimed empty missing; do
    call h2load h2load_parse "$file" log 2>/dev/null
    [ "$status" -ne 0 ] && [[ $output == *"$file is not the complete output of h2load"* ]]
  done
}

@test "a sar record gives means of the server's CPU, all CPUs and memory" {
  command -v sar >/dev/null || skip "no sar"
  LC_ALL=C sar -o record 1 2 >/dev/null 2>&1
  call sar sar_summary record 0 0
  is '.samples' 2
  is '.cpu.server.idle >= 0 and .cpu.all.idle <= 100 and .memory.used_kb > 0' true
}

@test "sar: means are computed over the samples" {
  cpu() { printf '{"cpu":"%s","user":%s,"nice":0,"system":10,"iowait":0,"steal":0,"idle":%s}' "$@"; }
  sample() { printf '{"timestamp":{"interval":1},"cpu-load":[%s,%s],"memory":{"memused":%s,"memused-percent":5}}' \
    "$(cpu all "$1" "$2")" "$(cpu 0 "$1" "$2")" "$3"; }
  printf '{"sysstat":{"hosts":[{"statistics":[%s,%s]}]}}' "$(sample 20 70 100)" "$(sample 40 50 300)" >json
  run bash -c '. "$1/tools/lib/common.sh"; . "$1/tools/lib/sar.sh"
    sar_jq "run(\$server; \$clients)" -c --arg server 0 --arg clients 0 <json' - "$TOP"
  is '[.samples, .cpu.server.user, .cpu.server.idle, .cpu.server.busy, .memory.used_kb]' '[2,30,60,40,200]'
}

# A server that closes its first connection and sends nothing on the others.
silent_server() { # its port is written to the file "port"
  perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(Listen => 9, LocalAddr => "127.0.0.1") or die;
    $| = 1; print $s->sockport, "\n"; my @kept = map { scalar $s->accept } 1 .. 3; shift @kept; sleep 30' >port 3>&- &
  server=$!
  for _ in {1..100}; do [[ ! -s port ]] || break; sleep 0.1; done
}

@test "h2load ends in time if handshakes do not, and broken connections are counted" {
  command -v h2load >/dev/null || skip "no h2load"
  silent_server
  # shellcheck disable=SC2016  # for the inner shell
  run bash -c '. "$1/tools/lib/common.sh"; . "$1/tools/lib/load.sh"
    load_dir() { pwd; }; client_exec() { exec "${@:2}"; }; bed_unlock_child() { :; }
    h2load_prepare; (load_run h2load:1 1 3 1s 0 "https://127.0.0.1:$2/" run); load_record h2load run' - "$TOP" "$(<port)"
  kill "$server"
  printf 'status %s\n%s\n' "$status" "$output"
  is '[.transactions, .failures, .elapsed_s < 15]' '[0,1,true]'
}

@test "jq of other versions: the tools' tests pass with each" {
  [[ -n ${VL_JQ-} ]] || skip "VL_JQ names no folder with another jq"
  local folders folder
  IFS=: read -ra folders <<<"$VL_JQ"
  for folder in "${folders[@]}"; do
    "$folder/jq" --version
    VL_JQ='' PATH=$folder:$PATH bats "$TOP"/t/92[0567]-*.bats >out 2>&1 ||
      { grep -A 20 '^not ok' out; return 1; }
  done
}
