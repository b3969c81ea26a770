#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mpm-itk 2.4.7-04 (httpd 2.4.71), MaxClientsVHost 3 in a virtual host.
# Expected: three requests of the site run at a time, and a fourth gets 503, whatever mod_status does.
#   A site that works on no request is not at its limit.
# Seen: with ExtendedStatus Off nothing is limited, and no message says so. With On, connections that
#   are idle until KeepAliveTimeout count: three of them keep every other client out.

. "$(dirname "$0")/lib.sh"
root trixie apache2-bin=2.4.71-1~deb13u1 libapache2-mpm-itk=2.4.7-04-2 python3 curl

measure() {
  backend
  echo page >"$ROOT/w/page"
  cat >"$ROOT/w/kept.py" <<'END'
import socket
kept = []
for _ in range(5):
    connection = socket.create_connection(('127.0.0.1', 80))
    connection.sendall(b'GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n')
    print(connection.recv(1000).split()[1].decode(), end=' ')
    kept.append(connection)
END
  serve() { # <value of ExtendedStatus>
    {
      printf 'LoadModule %s_module /usr/lib/apache2/modules/mod_%s.so\n' mpm_prefork{,} authz_core{,} status{,} proxy{,} proxy_http{,}
      echo 'LoadModule mpm_itk_module /usr/lib/apache2/modules/mpm_itk.so'
      printf '%s\n' 'Listen 127.0.0.1:80' 'ServerName localhost' 'User www-data' 'Group www-data' 'ErrorLog /w/error.log' \
        'PidFile /tmp/httpd.pid' 'DefaultRuntimeDir /tmp' 'DocumentRoot /w' 'StartServers 10' 'MinSpareServers 10' \
        'MaxRequestWorkers 20' "ExtendedStatus $1" '<VirtualHost 127.0.0.1:80>' 'MaxClientsVHost 3' \
        'ProxyPass /wait http://127.0.0.1:8001' '</VirtualHost>'
    } >"$ROOT/w/httpd.conf"
    in_root apache2 -f /w/httpd.conf
    until_listening 80
    sleep 1
  }
  requests() { # five of 3 s, one after another
    : >"$ROOT/w/statuses"
    for _ in {1..5}; do
      in_root curl -s -o /w/out -w '%{http_code} ' http://127.0.0.1/wait/3 >>"$ROOT/w/statuses" &
      sleep 0.2
    done
    sleep 5
  }
  refused() { grep -o 503 "$ROOT/w/statuses" | wc -l; }
  serve Off
  requests
  seen "ExtendedStatus Off, five requests at a time: $(cat "$ROOT/w/statuses")" "$(refused) == 0"
  seen "messages about the limit: $(grep -ic maxclients "$ROOT/w/error.log" || :)" "$(grep -ic maxclients "$ROOT/w/error.log" || :) == 0"
  kill "$(cat "$ROOT/tmp/httpd.pid")"
  while [[ -e $ROOT/tmp/httpd.pid ]]; do sleep 0.1; done
  serve On
  requests
  seen "ExtendedStatus On, five requests at a time: $(cat "$ROOT/w/statuses")" "$(refused) == 2"
  in_root python3 /w/kept.py >"$ROOT/w/statuses"
  seen "five connections that are idle after a short request: $(cat "$ROOT/w/statuses")" "$(refused) >= 2 && $(refused) < 5"
}

isolated measure
