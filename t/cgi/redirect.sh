#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A local redirect: Apache serves the page by an internal redirect.

printf 'Location: /page.html\r\n\r\n'
