#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# PHP-FPM 8.4.28, pm = ondemand, pm.max_children = 10, ten requests of 1 s at the same moment.
# Expected: a process starts for each connection that waits, up to ten. All ten are answered after
#   about 1 s. (Ten requests that come 0.1 s apart do get ten processes.)
# Seen: connections that arrive while the master starts a process start no further one. A few
#   processes answer all ten, one after another, and the master starts no more for connections that
#   wait. "max children reached" stays 0.

. "$(dirname "$0")/lib.sh"
root trixie php8.4-fpm=8.4.28-1~deb13u1 python3

measure() {
  fpm_pool <<'END'
pm = ondemand
pm.max_children = 10
pm.process_idle_timeout = 60s
END
  echo '<?php sleep(1); echo getmypid();' >"$ROOT/w/second.php"
  cat >"$ROOT/w/client.py" <<'END'
import select, socket, struct, sys, time

def record(kind, content):
    return struct.pack('>BBHHBB', 1, kind, 1, len(content), 0, 0) + content

pairs = {'REQUEST_METHOD': 'GET', 'SCRIPT_NAME': '/second.php', 'SCRIPT_FILENAME': '/w/second.php'}
names = b''.join(bytes([len(k), len(v)]) + k.encode() + v.encode() for k, v in pairs.items())
request = record(1, struct.pack('>HB5x', 1, 0)) + record(4, names) + record(4, b'') + record(5, b'')
start, waiting, processes, times = time.monotonic(), {}, set(), []
for _ in range(10):
    connection = socket.create_connection(('127.0.0.1', 9000))
    connection.sendall(request)
    waiting[connection] = b''
    time.sleep(float(sys.argv[1]))
while waiting:
    for connection in select.select(list(waiting), [], [])[0]:
        data = connection.recv(10000)
        waiting[connection] += data
        if not data:
            length = struct.unpack('>H', waiting[connection][4:6])[0]
            processes.add(waiting[connection][8:8 + length].split()[-1])
            times.append(time.monotonic() - start)
            del waiting[connection]
print(len(processes), round(times[-1] * 1000))
END
  chroot "$ROOT" php-fpm8.4 -F -y /w/fpm.conf 2>/dev/null &
  sleep 1
  read -r processes ms < <(in_root python3 /w/client.py 0)
  seen "at the same moment: $processes processes, the last answer after $ms ms" "processes <= 6 && ms > 1800"
  read -r processes ms < <(in_root python3 /w/client.py 0.1)
  seen "then 0.1 s apart: $processes processes, the last answer after $ms ms" "processes == 10 && ms < 3000"
}

isolated measure
