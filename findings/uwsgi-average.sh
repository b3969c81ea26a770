#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# uWSGI 2.0.28, stats server, avg_rt ("average response time") of a worker.
# Expected: the mean time of the worker's requests: running_time divided by requests.
# Seen: it is half of the last request plus half of the value before. After one request of 2 s it is
#   1 s, of twenty-one requests with a mean of 0.1 s. Twenty short requests later the slow one is gone.

. "$(dirname "$0")/lib.sh"
root trixie uwsgi-core=2.0.28-9 uwsgi-plugin-python3=2.0.28+8+0.0.2+b1 python3 curl

measure() {
  cat >"$ROOT/w/app.py" <<'END'
import time
def application(environ, start_response):
    time.sleep(float(environ['PATH_INFO'][1:]))
    start_response('200 OK', [])
    return [b'served']
END
  cat >"$ROOT/w/stats.py" <<'END'
import json, socket
worker = json.load(socket.create_connection(('127.0.0.1', 8001)).makefile())['workers'][0]
print(worker['requests'], worker['running_time'] // worker['requests'] // 1000, worker['avg_rt'] // 1000)
END
  chroot "$ROOT" uwsgi-core --plugins-dir /usr/lib/uwsgi/plugins --plugin python3 --http-socket 127.0.0.1:8000 \
    --wsgi-file /w/app.py --master --stats 127.0.0.1:8001 2>"$ROOT/w/log" &
  until_listening 8000
  until_listening 8001
  requests() { for _ in {1..20}; do in_root curl -s -o /w/out http://127.0.0.1:8000/0; done; }
  requests
  in_root curl -s -o /w/out http://127.0.0.1:8000/2
  read -r number mean average < <(in_root python3 /w/stats.py)
  seen "20 short requests and one of 2 s: $number requests, mean $mean ms, avg_rt $average ms" "number == 21 && average > 900 && mean < 300"
  requests
  read -r number mean average < <(in_root python3 /w/stats.py)
  seen "then 20 short ones: $number requests, mean $mean ms, avg_rt $average ms" "number == 41 && mean > 45 && average * 2 < mean"
}

isolated measure
