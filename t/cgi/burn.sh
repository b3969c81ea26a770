#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Burns at least 0.3 s of CPU time, or as much as it gets in 25 seconds.

end=$(($(date +%s) + 25))
burnt() { awk '{ print (($14 + $15) * 10 >= 300) }' "/proc/$$/stat"; }
n=0
until [ "$(burnt)" = 1 ] || [ "$(date +%s)" -ge "$end" ]; do
  m=0
  while [ $m -lt 20000 ]; do m=$((m + 1)); done
  n=$((n + 1))
done
printf 'Content-Type: text/plain\r\n\r\nburnt\n'
