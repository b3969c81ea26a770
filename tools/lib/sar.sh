# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# CPU and memory of the machine over a run: sar records, sadf says it in JSON,
# jq takes the means.  Columns are never scraped: they change with the locale.

# Replaces the shell: call it in the background or in parentheses.
sar_run() { # <seconds> <file>: every second, from a minute on every five
  local every=1
  (($1 < 60)) || every=5
  rm -f "$2"                    # sar would append
  LC_ALL=C aside_exec sar -o "$2" "$every" "$(($1 / every))" >/dev/null 2>&1
}

sar_summary() { # <file> <server's cpu>
  local json
  json=$(LC_ALL=C sadf -j "$1" -- -u -P ALL -r 2>/dev/null) || die "$1 is not a complete sar record"
  sar_means "$2" <<<"$json" 2>/dev/null || die "$1 is not a complete sar record"
}

sar_means() { # <server's cpu>; sadf's JSON on stdin
  jq -ce --arg server "$1" '
    def mean: if length > 0 then add / length else error("empty") end;
    def usage(which): map(."cpu-load"[] | select(.cpu == which))
      | { user: (map(.user + .nice) | mean), system: (map(.system) | mean),
          iowait: (map(.iowait) | mean), steal: (map(.steal) | mean),
          idle: (map(.idle) | mean) }
      | .busy = .user + .system;
    .sysstat.hosts[0].statistics | map(select(."cpu-load" and .memory))
    | { samples: length, interval_s: .[0].timestamp.interval,
        cpu: { server: usage($server), all: usage("all") },
        idle: map(."cpu-load"[] | select(.cpu == $server).idle),
        memory: { used_kb: (map(.memory.memused) | mean),
                  used_percent: (map(.memory."memused-percent") | mean) } }'
}
