# SPDX-License-Identifier: Apache-2.0
# needs: openssl mod_ssl
#
# Two more vhosts, s.test and t.test, over TLS on a port of their own. get,
# begin_request and the other helpers use https for them.

tls_port() { free_port tls; }

# These replace those of http.bash.
# shellcheck disable=SC2034  # http.bash reads url
set_url() { # <vhost> <path>
  local port
  case $1 in
    s | t) port_of tls && url=https://$1.test:$port$2 ;;
    *) port_of '' && url=http://$1.test:$port$2 ;;
  esac
}
web() { # <curl argument>...
  local port plain
  port_of '' && plain=$port && port_of tls
  curl -q -sS --noproxy '*' --max-time $((30 * SLOWER)) -k --resolve "*:$plain:127.0.0.1" \
    --resolve "*:$port:127.0.0.1" "$@"
}

tls_packets() { timeout $((60 * SLOWER)) perl "$TOP/t/lib/packets.pl" "$(tls_port)" "$@"; }  # as packets

# One self-signed certificate for all vhosts, and for clients.
make_certificate() {
  TLS_DIR=$BATS_FILE_TMPDIR/tls
  [[ ! -e $TLS_DIR/cert.pem ]] || return 0
  mkdir -p "$TLS_DIR"
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=s.test \
    -addext 'subjectAltName=DNS:s.test,DNS:t.test' \
    -keyout "$TLS_DIR/key.pem" -out "$TLS_DIR/cert.pem" 2>/dev/null
}

start_tls() { # ['s: LINE' | 't: LINE' | argument of start_httpd]...
  local arguments=() word name tail template_text
  local -A inside=()
  for word; do
    case $word in
      [st]:\ *) inside[${word%%:*}]+=${word#*: }$'\n' ;;
      *) arguments+=("$word") ;;
    esac
  done
  make_certificate
  tail="Listen 127.0.0.1:$(tls_port) https"$'\n'
  for name in s t; do
    mkdir -p "$TLS_DIR/$name/sub"
    make_pages "$TLS_DIR/$name" "$name"
    template_fill "$TOP/t/conf/vhost.conf.in" NAME="$name" ROOT="$TLS_DIR" PORT="$(tls_port)" \
      LINES="SSLEngine on"$'\n'"DocumentRoot \"$TLS_DIR/$name\""$'\n'"${inside[$name]:-}"
    tail+=$template_text$'\n'
  done
  start_httpd -l ssl -l socache_shmcb 'SSLSessionCache none' \
    "SSLCertificateFile \"$TLS_DIR/cert.pem\"" "SSLCertificateKeyFile \"$TLS_DIR/key.pem\"" \
    "<Directory \"$TLS_DIR\">" 'Require all granted' '</Directory>' -x "$tail" "${arguments[@]}"
}

# A ClientHello of TLS 1.2 in packets' escapes.
client_hello() { # <host>
  local list exts body
  list=00$(sized "$(printf %s "$1" | od -An -v -tx1 | tr -d " \n")")
  exts=0000$(sized "$(sized "$list")")000a$(sized "$(sized 001d0017)")000d$(sized "$(sized 080404010403)")
  exts+=000b$(sized 0100)
  body=0303$(printf '5a%.0s' {1..32})00$(sized c02fc030)0100$(sized "$exts")
  body=0100$(sized "$body")
  printf '160301%s' "$(sized "$body")" | sed 's/../\\x&/g'
}
sized() { printf '%04x%s' $((${#1} / 2)) "$1"; }           # <hex digits>
