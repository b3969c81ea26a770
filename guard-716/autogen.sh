#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes ./configure from a checkout; release tarballs have it already.
set -e
cd "$(dirname "$0")"
mkdir -p m4
exec autoreconf --install --force
