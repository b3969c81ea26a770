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

siege_words() { # <dir of its files> <users> <length> <keepalive> <url>: as all LOAD_words
  local length=-t${3%s}S
  [[ $3 != *req ]] || length=-r$((${3%req} / $2))
  load_words=(env LD_PRELOAD="$1/siege-cancel.so" siege -R "$1/siegerc" -b -c"$2" "$length" "$5")
}

siege_run() { # <client> <users> <length> <keepalive> <url> <file prefix>
  local home
  home=$(bed_file "siege-${6##*/}")
  mkdir -p "$home"
  siege_words "$(load_dir)" "${@:2:4}"
  HOME=$home client_exec "$1" "${load_words[@]}" >"$6.siege" 2> >(head -c 65536 >"$6.err"; cat >/dev/null)
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

# The text of siege 4.1.7 has milliseconds, with the unit.  JSON, and the text of older
# versions, has seconds.
siege_objects() { # <file>: an object for each summary; JSON passes through
  if grep -q '^{' "$1"; then
    sed -n '/^{/,/^}/p' "$1"
    return
  fi
  LC_ALL=C awk -F ':[ \t]*' '
    $1 == "Transactions" { printf "%s{", end; end = "}\n"; sep = "" }
    end && /^[A-Z][a-z]+( [a-z]+)?:[ \t]+[0-9.]+/ {
      key = tolower($1); gsub(" ", "_", key); split($2, word, " ")
      if (word[2] == "ms") word[1] = sprintf("%.5f", word[1] / 1000)
      printf "%s\"%s\":%s", sep, key, word[1]; sep = ","
    }
    END { printf "%s", end }' "$1"
}
