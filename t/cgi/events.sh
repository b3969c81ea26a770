#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A stream of server-sent events: one at once, one when the test writes to the
# fifo named in the query string, a minute later at most.

printf 'Content-Type: text/event-stream\r\n\r\ndata: first\n\n'
timeout 60 head -n 1 "$(dirname "$0")/../hold/$QUERY_STRING.fifo" >/dev/null
printf 'data: last\n\n'
