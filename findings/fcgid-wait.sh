#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mod_fcgid 2.3.9 with httpd 2.4.71, FcgidMaxProcesses 1, a program that needs 0.2 s.
# Expected: a request that finds the process busy begins as soon as the process is free. Four
#   requests at once are answered after 0.2, 0.4, 0.6 and 0.8 s.
# Seen: a waiting request looks for a free process once a second. The four are answered after
#   about 0.2, 1.2, 2.2 and 3.2 s. The process is idle for four fifths of the time.

. "$(dirname "$0")/lib.sh"
root trixie libapache2-mod-fcgid=1:2.3.9-4 apache2-bin=2.4.71-1~deb13u1 python3 curl

measure() {
  cat >"$ROOT/w/program" <<'END'
#!/usr/bin/python3
import socket, struct, time

listener = socket.socket(fileno=0)
while True:
    connection, _ = listener.accept()
    stream = connection.makefile('rb')
    while True:                                    # up to the end of FCGI_STDIN
        _, kind, number, length, padding, _ = struct.unpack('>BBHHBB', stream.read(8))
        stream.read(length + padding)
        if kind == 5 and length == 0:
            break
    time.sleep(0.2)
    output = b'Content-Type: text/plain\r\n\r\nok'
    connection.sendall(struct.pack('>BBHHBB', 1, 6, number, len(output), 0, 0) + output +
                       struct.pack('>BBHHBB', 1, 3, number, 8, 0, 0) + bytes(8))
    stream.close()
    connection.close()
END
  chmod 755 "$ROOT/w/program"
  mkdir "$ROOT/tmp/fcgid"
  chown 33:33 "$ROOT/tmp/fcgid"
  httpd fcgid <<'END'
FcgidIPCDir /tmp/fcgid
FcgidProcessTableFile /tmp/fcgid-table
FcgidMaxProcesses 1
FcgidMinProcessesPerClass 0
<Files program>
  SetHandler fcgid-script
  Options +ExecCGI
</Files>
END
  ask() { in_root curl -s -o /dev/null -w '%{http_code} %{time_total}\n' http://127.0.0.1/program; }
  ask >/dev/null
  ask >"$ROOT/w/times"
  seen "alone: $(<"$ROOT/w/times")" "$(awk '{ print ($1 == 200 && $2 < 0.4) }' "$ROOT/w/times")"
  for _ in 1 2 3 4; do ask & done >"$ROOT/w/times"
  sleep 5
  seen "four at once: $(sort "$ROOT/w/times" | xargs)" \
    "$(sort "$ROOT/w/times" | awk '$1 == 200 && $2 > NR - 1 && $2 < NR - 0.2 { n++ } END { print n + 0 }') == 4"
}

isolated measure
