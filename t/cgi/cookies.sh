#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Answers with the cookies that it was sent.

printf 'Content-Type: text/plain\r\n\r\n%s\n' "${HTTP_COOKIE-}"
