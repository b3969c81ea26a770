# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Clients that never send a request, see handshake.c: `handshake` completes TLS
# handshakes and stays connected for a second, `hello` sends ClientHellos and closes
# when the server has answered.  A transaction is a handshake, or an answer.

handshake_prepare() {
  gcc -O2 -Wall -o "$(load_dir)/handshake" "$(in_tree tools/lib/handshake.c)" -lssl -lcrypto ||
    die 'handshake.c did not compile'
}
hello_prepare() { handshake_prepare; }

handshake_version() { echo 'TLS handshakes'; }
hello_version()     { echo 'TLS hellos'; }

handshake_words() { handshake_flood handshake "$@"; }  # <dir of its files> <users> <length> <keepalive> <url>
hello_words()     { handshake_flood hello "$@"; }

handshake_flood() { # <kind> <as handshake_words>
  local host=${6#https://}
  load_words=("$2/handshake" "$1" "${host%%/*}" 443 "$3" "${4%s}")
}

handshake_run() { # <client> <users> <length> <keepalive> <url> <file prefix>
  handshake_words "$(load_dir)" "${@:2:4}"
  client_exec "$1" "${load_words[@]}" >"$6.handshake" 2>"$6.err"
}

hello_run() { # as handshake_run
  hello_words "$(load_dir)" "${@:2:4}"
  client_exec "$1" "${load_words[@]}" >"$6.hello" 2>"$6.err"
}

handshake_record() { handshake_parse "$1.handshake"; } # <file prefix>
hello_record()     { handshake_parse "$1.hello"; }

handshake_parse() { # <file>
  lib_jq load handshake -cse "$1" 2>/dev/null || die "$1 is not the complete output of handshake"
}
