#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# httpd 2.4.71, mod_ratelimit, rate-limit 1000 (KiB/s), a response of 20 pieces of 100 bytes each.
# Expected: 2000 bytes are far below the rate, so the response is not slowed down.
# Seen: each piece that the application has flushed waits for a step of 0.2 s of its own. The
#   response takes 4 s, a rate of 0.5 KiB/s. mod_wsgi flushes each piece of a generator.

. "$(dirname "$0")/lib.sh"
root trixie apache2-bin=2.4.71-1~deb13u1 libapache2-mod-wsgi-py3=5.0.2-1 curl

measure() {
  cat >"$ROOT/w/pieces.py" <<'END'
def application(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    for _ in range(int(environ['QUERY_STRING'])):
        yield b'x' * (2000 // int(environ['QUERY_STRING']))
END
  httpd wsgi ratelimit env <<'END'
WSGIScriptAlias /free /w/pieces.py
WSGIScriptAlias /limited /w/pieces.py
<Location /limited>
  SetOutputFilter RATE_LIMIT
  SetEnv rate-limit 1000
</Location>
END
  answer() { in_root curl -s -o /w/out -w '%{size_download} %{time_total}\n' "http://127.0.0.1/$1" | awk '{ print $1, int($2 * 1000) }'; }
  answer 'free?1' >"$ROOT/w/first"                   # the interpreter starts
  read -r bytes ms < <(answer 'free?20')
  seen "20 pieces, no limit: $bytes bytes in $ms ms" "bytes == 2000 && ms < 1000"
  read -r bytes ms < <(answer 'limited?1')
  seen "one piece, 1000 KiB/s: $bytes bytes in $ms ms" "bytes == 2000 && ms < 1000"
  read -r bytes ms < <(answer 'limited?20')
  seen "20 pieces, 1000 KiB/s: $bytes bytes in $ms ms" "bytes == 2000 && ms > 3500"
}

isolated measure
