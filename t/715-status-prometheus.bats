#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The alert rules and the dashboard use existing metrics, and a real Prometheus scrapes a
# loaded Apache.

load lib/live

RULES=$TOP/conf/prometheus-rules.yml
DASHBOARD=$TOP/conf/grafana-dashboard.json

teardown() {
  [[ -z ${prometheus_pid:-} ]] || { kill "$prometheus_pid"; wait "$prometheus_pid" || :; }
  end_server
}

# Prints the metrics in a text, without those that the rules record.
metrics_in() { grep -ohE '(^|[^:a-z_])vhostlimit_[a-z_]+' "$@" | grep -oE 'vhostlimit_[a-z_]+' | sort -u; }  # <file>...

# Prints the metrics of the server.
metrics_of_server() { sed -nE 's/^(vhostlimit_[a-z_]+)[{ ].*/\1/p' "$BATS_TEST_TMPDIR/body" | sort -u; }

dashboard_queries() { jq -r '.panels[].targets[].expr' "$DASHBOARD"; }

# A Prometheus on a port of its own that scrapes this server every second.
start_prometheus() {
  local dir=$BATS_TEST_TMPDIR/prometheus
  prometheus_port=$(free_port prometheus)
  mkdir -p "$dir"
  cat >"$dir/prometheus.yml" <<END
global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }
rule_files: [ "$RULES" ]
scrape_configs:
  - job_name: vhostlimit
    metrics_path: /vhostlimit
    params: { prometheus: [ "" ] }
    static_configs: [ { targets: [ "127.0.0.2:$(httpd_port)" ] } ]
END
  detached timeout 120 prometheus --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/data" \
    --web.listen-address="127.0.0.1:$prometheus_port" >"$dir/log" 2>&1 &
  prometheus_pid=$!
  wait_until 20 web -o /dev/null -f "http://127.0.0.1:$prometheus_port/-/ready" 2>/dev/null
}

# Prints the value of the first series, or nothing if there is none.
query() { # <expression>
  web --data-urlencode "query=$1" "http://127.0.0.1:$prometheus_port/api/v1/query" |
    jq -er 'if .status == "success" then .data.result[0].value[1] // "" else error(.error) end'
}

reaches() { local got; got=$(query "$1") && [[ -n $got ]] && ((${got%.*} >= $2)); }  # <expression> <at least>

@test "promtool accepts the alert rules" {
  requires promtool
  try promtool check rules "$RULES"
  is "$status" 0
}

@test "alerts fire and stay silent as the rule tests expect" {
  requires promtool
  sed "s|@RULES@|$RULES|" "$TOP/t/conf/prometheus-rules-test.yml" >"$BATS_TEST_TMPDIR/test.yml"
  try promtool test rules "$BATS_TEST_TMPDIR/test.yml"
  is "$status" 0
}

@test "rules and dashboard use existing metrics only" {
  start_httpd 'VhostLimit On'
  get a / >/dev/null
  get status '/vhostlimit?prometheus' >/dev/null
  local metric told
  told=$(metrics_of_server)
  at_least "$(metrics_in "$RULES" "$DASHBOARD" | wc -l)" 12 "metrics used"
  for metric in $(metrics_in "$RULES" "$DASHBOARD"); do
    grep -qx "$metric" <<<"$told" || fail "$metric: no such metric"
  done
}

@test "each panel of the dashboard has a title, a position, queries and a unique id" {
  is "$(jq -r '[.panels[] | select((.title | not) or (.gridPos | not) or (.targets | length == 0))] | length' "$DASHBOARD")" 0
  is "$(jq -r '[.panels[].id] | length - (unique | length)' "$DASHBOARD")" 0 "ids used twice"
}

@test "Prometheus scrapes a loaded Apache, and every query of the dashboard works" {
  requires prometheus ab
  start_httpd 'VhostLimit On' -v 'a VhostLimitConcurrency 1' -v 'a VhostLimitQueue 5 200ms' \
    -x "<VirtualHost 127.0.0.2:$(httpd_port)>" -x 'VhostLimit Off' \
    -x '<Location "/vhostlimit">' -x 'SetHandler vhostlimit-status' -x '</Location>' -x '</VirtualHost>'
  start_prometheus
  ab -q -r -t 100 -n 1000000 -c 20 -H 'Host: a.test' "http://127.0.0.1:$(httpd_port)/cgi/nap.sh" >/dev/null 2>&1 3>&- 4>&- &
  local load_pid=$!
  wait_until 20 reaches 'up{job="vhostlimit"}' 1
  wait_until 20 reaches 'sum(rate(vhostlimit_requests_total{vhost=~"a.test.*"}[5s]))' 1
  wait_until 20 reaches 'sum(rate(vhostlimit_requests_refused_total{reason="queue"}[5s]))' 1
  kill "$load_pid"
  wait "$load_pid" || true
  settles a running 0
  wait_until 10 reaches 'vhostlimit_requests_total{vhost=~"a.test.*"}' "$(status_of a requests)"
  local expr
  while read -r expr; do
    expr=${expr//\$__rate_interval/10s} expr=${expr//\$instance/.*} expr=${expr//\$vhost/.*}
    query "$expr" >/dev/null || fail "$expr"
  done < <(dashboard_queries)
}
