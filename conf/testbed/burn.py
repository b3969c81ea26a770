# SPDX-License-Identifier: Apache-2.0
# A WSGI application: ?ms=N burns N ms of the thread's CPU time, as burn.php; 10 s at most.
# &sleep=N then sleeps N ms.

import time
from urllib.parse import parse_qs


def application(environ, start_response):
    query = parse_qs(environ.get("QUERY_STRING", ""))
    ms = min(int(query.get("ms", ["10"])[0]), 10000)
    until = time.thread_time() + ms / 1000
    while time.thread_time() < until:
        pass
    time.sleep(int(query.get("sleep", ["0"])[0]) / 1000)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"burned %d ms\n" % ms]
