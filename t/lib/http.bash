# SPDX-License-Identifier: Apache-2.0
#
# Clients: one request, many on one connection, held ones, and the status page.

url() { local url; set_url "$@" && printf '%s\n' "$url"; }                              # <vhost> <path>
set_url() { local port; port_of '' && url=http://$1.test:$port$2; }  # <vhost> <path>: sets url

# curl without a proxy and ~/.curlrc, with all names resolved to the test's server.
# main.test is the name of no vhost and has the address of the main server.
web() { # <curl argument>...
  local port
  port_of ''
  curl -q -sS --noproxy '*' --max-time $((30 * SLOWER)) --resolve "main.test:$port:127.0.0.2" \
    --resolve "*:$port:127.0.0.1" "$@"
}

# Makes a request and prints the status; answer_head and answer_body have the rest.
get() { # <vhost> <path> [curl argument]...
  local url
  set_url "$1" "$2"
  web -D "$BATS_TEST_TMPDIR/head" -o "$BATS_TEST_TMPDIR/body" -w '%{http_code}\n' "${@:3}" "$url"
}

answer_body() { cat "$BATS_TEST_TMPDIR/body"; }

answer_head() { # <header name>   its value, empty when it is not there
  sed -n "s/^$1: *\(.*\)\r\$/\1/Ip" "$BATS_TEST_TMPDIR/head"
}

# ---- raw connections -----------------------------------------------------------------

# Sends standard input and prints the answer until the server closes.
raw() { timeout $((20 * SLOWER)) perl "$TOP/t/lib/packets.pl" "$(httpd_port)" --raw; }

# Connections with packets of chosen contents: see packets.pl.
packets() { (exec_packets "$@"); }  # <step>...

# The same in the background: `kill $!` ends the client.
exec_packets() { exec timeout $((60 * SLOWER)) perl "$TOP/t/lib/packets.pl" "$(httpd_port)" "$@"; }  # <step>...

# Several clients at once, each of which sends the text and waits for its response. Prints
# how many got which status: "50 200", "2 none".
crowd() { packets --crowd "$1" "$2"; }  # <number> <text>

# Pipelines requests on one connection and prints the status of each response.
pipeline() { # <vhost> <count> <path>...   paths take turns
  local vhost=$1 count=$2 paths=("${@:3}") i close=''
  for ((i = 1; i <= count; i++)); do
    ((i < count)) || close=$'Connection: close\r\n'
    printf 'GET %s HTTP/1.1\r\nHost: %s.test\r\n%s\r\n' "${paths[i % ${#paths[@]}]}" "$vhost" "$close"
  done | raw | sed -n 's,^.*HTTP/1\.1 \([0-9]*\) .*$,\1,p'
}

# A client that requests a large file, reads a part of it and closes.
abort_request() { # <vhost> <path>
  local fd
  exec {fd}<>"/dev/tcp/127.0.0.1/$(httpd_port)"
  printf 'GET %s HTTP/1.1\r\nHost: %s.test\r\n\r\n' "$2" "$1" >&"$fd"
  head -c 1000 <&"$fd" >/dev/null
  exec {fd}>&-
}

# ---- in the background -------------------------------------------------------

# Prints the names of requests held by hold.sh, in the order in which they began. File
# times are too coarse for that: they have the resolution of the kernel's tick.
begun() { grep -x "$1" "$HTTPD_ROOT/hold/begun" | xargs; }  # <regex>

begin_request() { # <name> <vhost> <path> [curl argument]...
  local out=$HTTPD_ROOT/hold/$1 url
  set_url "$2" "$3"
  rm -f "$out.code" "$out.in"           # of an earlier one of this name
  (
    web -o "$out.body" -w '%{http_code}\n' "${@:4}" "$url" >"$out.code.part" 2>"$out.err" || :
    mv "$out.code.part" "$out.code"
  ) 3>&- 4>&- &
}

# Prints the status of a begun request; 000 if there was no response.
answer_of() { # <name>
  wait_until 20 answered "$1" && cat "$HTTPD_ROOT/hold/$1.code"
}

answered() { [[ -e $HTTPD_ROOT/hold/$1.code ]]; }  # <name>

# The same for a crowd; crowd_got prints the statuses.
begin_crowd() { # <name> <number> <vhost> <path>
  (
    crowd "$2" "GET $4 HTTP/1.1\r\nHost: $3.test\r\nConnection: close\r\n\r\n" >"$HTTPD_ROOT/hold/$1.crowd.part" || :
    mv "$HTTPD_ROOT/hold/$1.crowd.part" "$HTTPD_ROOT/hold/$1.crowd"
  ) 3>&- 4>&- &
}

crowd_over() { [[ -e $HTTPD_ROOT/hold/$1.crowd ]]; }                               # <name>
crowd_got()  { wait_until 40 crowd_over "$1" && xargs <"$HTTPD_ROOT/hold/$1.crowd"; }  # <name>

# A request that runs in the server until the test lets it go.
hold_request() { # <name> [vhost] [curl argument]...
  local fifo=$HTTPD_ROOT/hold/$1.fifo
  mkfifo -m 666 "$fifo"
  begin_request "$1" "${2:-a}" "/cgi/hold.sh?$1" "${@:3}"
  wait_until 10 held "$1" || { show_log; return 1; }
}

held() { [[ -s $HTTPD_ROOT/hold/$1.in ]]; }              # <name>
holder_of() { cat "$HTTPD_ROOT/hold/$1.in"; }            # <name>   pid of the child that runs it

release_request() { # <name>
  let_go "$HTTPD_ROOT/hold/$1.fifo"
  answer_of "$1" >/dev/null
}

release_all() {
  local fifo
  for fifo in "$HTTPD_ROOT/hold"/*.fifo; do
    if [[ -p $fifo ]]; then let_go "$fifo"; fi
  done
}

# The script may have ended: its end of the fifo is not waited for forever.
let_go() { # <fifo>
  timeout $((2 * SLOWER)) tee "$1" <<<go >/dev/null || :
  rm -f "$1"
}

# ---- the status page ---------------------------------------------------------

status_json() { web "$(url status '/vhostlimit?json')"; }

# Sets status_text to the JSON of the status page, where each site is a line. The shell itself makes the
# request: tests poll this page, and curl and jq would use 30 ms of CPU time each time.
read_status() {
  local fd rest port rc=0
  port_of ''
  { exec {fd}<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || return
  printf 'GET /vhostlimit?json HTTP/1.0\r\nHost: status.test:%s\r\n\r\n' "$port" >&"$fd" || rc=$?
  status_text=
  while IFS= read -r -t $((30 * SLOWER)) -u "$fd" -N 65536 rest || [[ -n $rest ]]; do status_text+=$rest; done
  exec {fd}>&-
  ((rc == 0)) && [[ $status_text == 'HTTP/1.1 200 '* ]]
}

# With thousands of sites the status is too much text for the shell.
no_request_runs_in_thousands() {
  local text=${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}/status-text
  status_json >"$text" && ! grep -qE '"(running|waiting|deferred)":[1-9]' "$text"
}

# Sets status_value to one value of the text that read_status has read, and status_site to the
# site's line; fails when there is none.
find_status() { # <vhost> <column>
  status_site=${status_text#*$'\n'"{\"name\":\"$1.test\","}
  [[ $status_site != "$status_text" ]] || return
  status_site=${status_site%%$'\n'*}
  status_value=${status_site#*\""$2"\":}
  [[ $status_value != "$status_site" ]] || return
  if [[ $status_value == '"'* ]]; then status_value=${status_value#\"} status_value=${status_value%%\"*}; else status_value=${status_value%%[,\}]*}; fi
}

# One value of the status page. Fails when there is none.
status_of() { # <vhost> <column>
  read_status && find_status "$@" && printf '%s\n' "$status_value"
}

status_is() { read_status && find_status "$1" "$2" && [[ $status_value == "$3" ]]; }  # <vhost> <column> <value>

# Waits for up to twenty seconds until a column has the value.
settles() { # <vhost> <column> <value>
  wait_until 20 status_is "$@" 2>/dev/null || is "$(status_of "$1" "$2")" "$3" "$2 of $1"
}

status_at_least() { read_status && find_status "$1" "$2" && ((status_value >= $3)); }  # <vhost> <column> <bound>

# The command adds exactly this number of requests to the account, and all end. The count
# is compared when the site is idle, so that a request counted twice is found.
counts_as() { # <number> <vhost> <command>...
  local want
  want=$(($(status_of "$2" requests) + $1))
  "${@:3}"
  wait_until 20 status_at_least "$2" requests "$want" 2>/dev/null || :
  settles "$2" waiting 0
  settles "$2" running 0
  is "$(status_of "$2" requests)" "$want" "requests of $2, which is idle"
}

# The access log of one vhost, written once all its requests are over.
access_log() { sed -n "s/^$1\.test //p" "$HTTPD_ROOT/logs/access.log"; }  # <vhost>

# Begins requests that wait, one after the other, so that their order is known. Each is
# named after its path, letters and digits only.
line_up() { # <vhost> <path>...
  local vhost=$1 path name already
  already=$(waiting_of "$vhost")
  shift
  for path; do
    name=${path//[^a-z0-9]/}
    begin_request "$name" "$vhost" "$path" -D "$HTTPD_ROOT/hold/$name.head"
    ((already += 1))
    wait_until 20 has_waiting "$vhost" "$already"
  done
}
# How many are in the queue and beyond it.
waiting_of() { # <vhost>
  local queued
  read_status && find_status "$1" waiting && queued=$status_value && find_status "$1" deferred && echo $((queued + status_value))
}
has_waiting() { [[ $(waiting_of "$1") == "$2" ]]; }  # <vhost> <number>
head_of()     { sed -n "s/^$2: *\(.*\)\r\$/\1/Ip" "$HTTPD_ROOT/hold/$1.head"; }            # <name> <header>

# A client in the background: its pid is in the variable NAME_pid.
in_background() { # <name> <command>...
  "${@:2}" >"$BATS_TEST_TMPDIR/$1" 2>&1 3>&- 4>&- &
  eval "$1_pid=$!"
}
has_got() { grep -aq -- "$2" "$BATS_TEST_TMPDIR/$1"; }  # <name> <text>
