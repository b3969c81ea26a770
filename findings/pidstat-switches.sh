#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# pidstat of sysstat 12.7.5, a process with four threads beside the main one.
# Expected: the line of a process is about the process: -u (CPU) and -w (context switches) cover
#   all its threads.
# Seen: -u covers all threads, -w the main thread only. A server whose threads switch some
#   thousand times a second has 0 switches; -t shows those of each thread.

. "$(dirname "$0")/lib.sh"
root trixie sysstat=12.7.5-2 python3

measure() {
  cat >"$ROOT/w/threads.py" <<'END'
import threading, time

def work():
    while True:
        for _ in range(2000):
            pass
        time.sleep(0.001)

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(60)
END
  chroot "$ROOT" python3 /w/threads.py &
  pid=$!
  sleep 0.5
  LC_ALL=C in_root pidstat -u -w -t -p "$pid" 1 3 | sed -n '/^Average/p' >"$ROOT/w/out"
  # The lines of the process have "-" in column 4 (TID), those of threads in column 3 (TGID).
  cpu=$(awk '/%CPU/ { in_cpu = 1 } /cswch/ { in_cpu = 0 } in_cpu && $4 == "-" { printf "%d", $9 }' "$ROOT/w/out")
  of_process=$(awk '/cswch/ { on = 1 } on && $4 == "-" { printf "%d", $5 }' "$ROOT/w/out")
  of_threads=$(awk '/cswch/ { on = 1 } on && $3 == "-" { n += $5 } END { printf "%d", n }' "$ROOT/w/out")
  seen "CPU of the process: $cpu %" "cpu > 0"
  seen "context switches per second: the process $of_process, its threads $of_threads" "of_process < 10 && of_threads > 400"
}

isolated measure
