# SPDX-License-Identifier: Apache-2.0
# A WSGI application: ?ms=N burns N ms of the thread's CPU time, as burn.php; 10 s at most.

import time
from urllib.parse import parse_qs


def application(environ, start_response):
    ms = min(int(parse_qs(environ.get("QUERY_STRING", "")).get("ms", ["10"])[0]), 10000)
    until = time.thread_time() + ms / 1000
    while time.thread_time() < until:
        pass
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"burned %d ms\n" % ms]
