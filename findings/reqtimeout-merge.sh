#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# httpd 2.4.71, mod_reqtimeout, a virtual host that sets one stage and inherits the others.
# Expected: with header=2-20,MinRate=10 for the server and body=30 in the virtual host, its stage
#   "header" is that of the server: each 10 bytes prolong the 2 s by a second.
# Seen: the virtual host inherits 2 s and 20 s, but no rate: nothing prolongs the time. A client
#   that sends 40 bytes/s gets 408 after 2 s. In a virtual host without the directive it is served.

. "$(dirname "$0")/lib.sh"
root trixie apache2-bin=2.4.71-1~deb13u1 python3

measure() {
  cat >"$ROOT/w/client.py" <<'END'
import socket, sys, time

connection = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
connection.settimeout(0.5)
start, answer = time.monotonic(), b''
connection.sendall(b'GET /page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n')
for _ in range(10):                               # 20 bytes each half second
    try:
        answer = connection.recv(100)
        break
    except TimeoutError:
        connection.sendall(b'X-Header: 12345678\r\n')
else:
    connection.sendall(b'\r\n')
    answer = connection.recv(100)
print(answer.split()[1].decode(), round((time.monotonic() - start) * 1000))
END
  echo page >"$ROOT/w/page"
  httpd reqtimeout <<'END'
RequestReadTimeout header=2-20,MinRate=10
Listen 127.0.0.1:81
<VirtualHost 127.0.0.1:80>
</VirtualHost>
<VirtualHost 127.0.0.1:81>
  RequestReadTimeout body=30
</VirtualHost>
END
  read -r status ms < <(in_root python3 /w/client.py 80)
  seen "without the directive: status $status after $ms ms" "$status == 200 && ms > 4500"
  read -r status ms < <(in_root python3 /w/client.py 81)
  seen "with body=30: status $status after $ms ms" "$status == 408 && ms < 3500"
}

isolated measure
