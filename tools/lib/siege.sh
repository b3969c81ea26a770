# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# siege 4: its resource file, one run, and its summary (JSON or plain text) as a
# record.  siege counts a response below 400 as a transaction, and every other response
# or broken connection as a failure.  It has no percentiles.

siege_version() { # in a home of its own, where siege creates files even for this
  HOME=$(bed_file .) siege --version 2>&1 | sed -n "s/^SIEGE /siege /p"
}

siege_prepare() { # <keepalive 0|1>: see siege-cancel.c, which needs no libc
  gcc -O2 -shared -fPIC -nostdlib -o "$(load_dir)/siege-cancel.so" "$(in_tree tools/lib/siege-cancel.c)" ||
    die 'siege-cancel.c did not compile'
  siege_rc "$1" >"$(load_dir)/siegerc"
}

siege_rc() { # <keepalive 0|1>
  cat <<END
verbose = false
quiet = false
color = off
json_output = true
show-logfile = false
logging = false
gmethod = GET
parser = false
cache = false
protocol = HTTP/1.1
connection = $( (($1)) && echo keep-alive || echo close)
limit = 10000
failures = 1000000000
timeout = 30
END
}

siege_words() { # see load.sh
  load_words=(env LD_PRELOAD="$1/siege-cancel.so" siege -R "$1/siegerc" -b -c"$2" -t"${3%s}S" "$5")
}

siege_run() { # <client> <file prefix>: it may write very many errors
  local home
  home=$(bed_file "siege-${2##*/}")
  mkdir -p "$home"
  HOME=$home client_exec "$1" "${load_words[@]}" >"$2.siege" 2> >(head -c 65536 >"$2.err"; cat >/dev/null)
}

siege_record() { siege_parse "$1.siege"; }   # <file prefix>

siege_parse() { # <file> -> record
  local summary
  summary=$(siege_summary "$1") || return
  lib_jq load siege -c <<<"$summary"
}

siege_summary() { # <file>: JSON or plain text; times are in seconds
  siege_objects "$1" 2>/dev/null | lib_jq load siege_summary -cse 2>/dev/null || die "$1 is not a complete siege summary"
}

# Prints an object for each summary, JSON or text.  Only what has all lines of a summary in their
# order is one: with siege -p the file has bodies of pages too.  The text of siege 4.1.7 has
# milliseconds, with the unit.  JSON, and the text of older versions, has seconds.
siege_objects() { # <file>
  LC_ALL=C awk '
    function number(text,   word) { split(text, word, " "); return word[2] == "ms" ? sprintf("%.5f", word[1] / 1000) : word[1] }
    BEGIN {
      n = split("transactions availability elapsed_time data_transferred response_time transaction_rate throughput concurrency " \
        "successful_transactions failed_transactions longest_transaction shortest_transaction", name, " ")
    }
    # The first key of JSON is in the line of the brace up to 4.0.7.
    match($0, /[{][ \t\r]*("transactions":.*)?$/) { json = 1; at = 0; $0 = substr($0, RSTART + 1); if ($0 ~ /^[ \t\r]*$/) next }
    /^Transactions:/ { json = 0; at = 0 }
    {
      key = $0; value = $0
      if (json ? !sub(/^[ \t]*"/, "", key) || !sub(/":[ \t]*[0-9.]+,?[ \t\r]*$/, "", key) : !sub(/:[ \t]+[0-9.]+.*$/, "", key)) key = ""
      sub(/^[^:]*:[ \t]*/, "", value)
      key = tolower(key); gsub(" ", "_", key)
      if (key == "" || key != name[at + 1]) { at = 0; json = 0; next }
      sub(/,.*/, "", value)
      object = (at++ ? object "," : "{") "\"" key "\":" number(value)
      if (at == n) { print object "}"; at = 0; json = 0 }
    }' "$1"
}
