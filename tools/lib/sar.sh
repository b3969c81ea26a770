# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# CPU and memory of the machine over a run: sar records, sadf prints JSON, jq makes the
# means.  sar's columns are not parsed: they change with the locale.

# Replaces the shell: call it in the background or in parentheses.
sar_run() { # <seconds> <file>: every second, from a minute on every five
  local every=1
  (($1 < 60)) || every=5
  rm -f "$2"                    # sar would append
  LC_ALL=C exec_on_client_cpus sar -o "$2" "$every" "$(($1 / every))" >/dev/null 2>&1
}

sar_summary() { # <file> <the server's CPUs> <the clients' CPUs>: "all", or numbers with commas
  # shellcheck disable=SC2016  # jq's own
  sar_query "$1" 'run($server; $clients)' -c --arg server "$2" --arg clients "$3"
}

# sadf from before 2020 has no pressure and accepts no word after -q.
sar_query() { # <file> <filter> [<argument of jq>]...
  sar_sadf "$1" -q ALL 2>&1 | sar_jq "${@:2}" || sar_sadf "$1" -q 2>&1 | sar_jq "${@:2}" || die "$(sar_refusal "$1")"
}

# sadf ends with 0 on a truncated file.  Its stderr goes into the same pipe, so that any
# message makes the JSON invalid.
sar_sadf() { # <file> <option>...
  local path=$1
  [[ $path == /* ]] || path=./$path    # "12" would be an interval, "-1" yesterday
  LC_ALL=C sadf -j "$path" -- -u -P ALL -r "${@:2}"
}

sar_jq() { lib_jq sar "$1" -e "${@:2}" 2>/dev/null; }     # <filter> [<argument of jq>]...

sar_refusal() { # <file>: why there is no answer
  local said version here packer
  said=$(sar_sadf "$1" -q 2>&1 >/dev/null) || true
  version=$(sar_header "$1" 2>&1 | sed -n 's/^File created .* version //p')
  here=$(LC_ALL=C sadf -V 2>&1 | sed -n 's/^sysstat version //p')
  if [[ $said == *'cannot read the format'* || -z $said ]] && [[ -n $version && -n $here && $version != "$here" ]] &&
    sort -VC <<<"$here"$'\n'"$version"; then
    printf '%s was written by a newer sysstat (%s, here is %s): read it on the machine that wrote it, or with that version\n' \
      "$1" "$version" "$here"
    return
  fi
  case $said in
    *'cannot read the format'*)
      printf '%s was written by another version of sysstat%s: convert it (sadf -c %s >NEW) or read it on the machine that wrote it\n' \
        "$1" "${version:+ ($version)}" "$1" ;;
    *'file unexpected'*) printf '%s is not a complete sar record: it is truncated\n' "$1" ;;
    '') printf '%s has none of the requested samples\n' "$1" ;;
    *)
      packer=$(sar_packer "$1")
      if [[ -n $packer ]]; then
        printf '%s is not a complete sar record: it is compressed. Decompress it first (%s -dc %s >NEW)\n' "$1" "$packer" "$1"
      elif [[ -s $1 && $(head -c 512 "$1" | tr -d '\11\12\15\40-\176' | wc -c) == 0 ]]; then
        printf '%s is not a complete sar record: it is text. The record is the file that sar -o or sadc wrote (saDD for sarDD)\n' "$1"
      else
        printf '%s is not a complete sar record\n' "$1"
      fi ;;
  esac
}

sar_header() { # <file>
  local path=$1
  [[ $path == /* ]] || path=./$path
  LC_ALL=C sadf -H "$path"
}

sar_packer() { # <file>: the program that has compressed it, or nothing
  case $(od -An -tx1 -N 6 "$1" 2>/dev/null | tr -d ' ') in
    1f8b*) echo gzip ;;
    fd377a585a00) echo xz ;;
    425a68*) echo bzip2 ;;
    28b52ffd*) echo zstd ;;
  esac
}
