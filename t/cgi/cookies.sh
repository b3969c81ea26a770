#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Answers with the cookies that it was sent. The query is the response's Cache-Control.

[ -z "$QUERY_STRING" ] || printf 'Cache-Control: %s\r\n' "$QUERY_STRING"
printf 'Content-Type: text/plain\r\n\r\n%s\n' "${HTTP_COOKIE-}"
