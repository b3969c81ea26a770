#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# PHP-FPM 8.4.28, status page, one connection that is kept (mod_proxy_fcgi with enablereuse=on).
# Expected: "active processes" and "total processes" are numbers of processes: with
#   pm.max_children = 2 at most 2. "max active processes" is their highest value.
# Seen: each request on a kept connection adds one to "active processes". A pass of the master,
#   once a second, corrects the number. "max active processes" keeps the wrong value for good.
#   A process that waits for the next request on its connection counts as active.

. "$(dirname "$0")/lib.sh"
root trixie php8.4-fpm=8.4.28-1~deb13u1 python3

measure() {
  fpm_pool <<'END'
pm = static
pm.max_children = 2
pm.status_path = /status
pm.status_listen = 127.0.0.1:9001
END
  echo '<?php echo 1;' >"$ROOT/w/one.php"
  cat >"$ROOT/w/client.py" <<'END'
import re, socket, struct, time

def record(kind, content):
    return struct.pack('>BBHHBB', 1, kind, 1, len(content), 0, 0) + content

def request(connection, path, keep):
    pairs = {'REQUEST_METHOD': 'GET', 'SCRIPT_NAME': path, 'SCRIPT_FILENAME': path}
    names = b''.join(bytes([len(k), len(v)]) + k.encode() + v.encode() for k, v in pairs.items())
    connection.sendall(record(1, struct.pack('>HB5x', 1, keep)) + record(4, names) + record(4, b'') + record(5, b''))
    stream, output = connection.makefile('rb'), b''
    while True:
        _, kind, _, length, padding, _ = struct.unpack('>BBHHBB', stream.read(8))
        content = stream.read(length + padding)
        if kind == 6:
            output += content[:length]
        if kind == 3:
            return output.decode()

def status():
    text = request(socket.create_connection(('127.0.0.1', 9001)), '/status', 0)
    return ' '.join(re.search('^%s processes: +(.*)' % name, text, re.M)[1] for name in ('active', 'total', 'max active'))

kept = socket.create_connection(('127.0.0.1', 9000))
time.sleep(0.2)
for attempt in range(3):            # a pass of the master may fall between the requests
    for _ in range(10):
        request(kept, '/w/one.php', 1)
    first = status()
    if int(first.split()[0]) > 4:
        break
time.sleep(2.5)
print(first, status())
END
  in_root php-fpm8.4 -F -y /w/fpm.conf 2>/dev/null &
  until_listening 9000
  sleep 1.2                          # a pass of the master counts the probe of until_listening out
  read -r active total most active2 total2 most2 < <(in_root python3 /w/client.py)
  seen "after 10 requests on one connection: $active active, $total in all, at most $most active" "active > 4 && total > 4 && most > 4"
  seen "2.5 s later, no request running: $active2 active, $total2 in all, at most $most2 active" "active2 == 1 && total2 == 2 && most2 > 4"
}

isolated measure
