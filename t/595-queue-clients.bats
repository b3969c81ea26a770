#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The order inside a site's queue: by class, by band (known clients and strangers), by client.

load lib/live
load lib/control

export VHOSTLIMIT_TEST_STATE=engaged    # clients have shares while requests wait

# One slot of site a, which a request holds until the others have queued up.
start_site() { # [-l MODULE]... <directive of a>...
  local args=()
  while [[ ${1-} == -l ]]; do
    args+=(-l "$2")
    shift 2
  done
  while (($#)); do
    args+=(-v "a $1")
    shift
  done
  start_httpd -m event -t 'StartServers 1' -t 'ServerLimit 1' -t 'ThreadLimit 16' -t 'ThreadsPerChild 16' \
    -t 'MaxRequestWorkers 16' -t 'MinSpareThreads 1' -t 'MaxSpareThreads 16' \
    'VhostLimit On' -v 'a VhostLimitConcurrency 1' "${args[@]}"
}

# Requests that queue up one after the other, each from its client: 127.0.0.<number>.
queue_up() { # <name>:<number>[:<User-Agent>]...
  local each name number agent already
  already=$(waiting_of a)
  for each; do
    IFS=: read -r name number agent <<<"$each"
    begin_request "$name" a "/cgi/hold.sh?$name" --interface "127.0.0.$number" -A "${agent:-browser}"
    ((already += 1))
    wait_until 20 has_waiting a "$already"
  done
}

# The order in which the queued requests began.
order() { # <name of the last one in the queue>
  release_request held
  is "$(answer_of "$1")" 200
  settles a running 0
  settles a waiting 0
  begun '[bknsv][0-9]'
}

@test "a client with many requests does not delay the other clients of its site" {
  start_site
  hold_request held
  queue_up n1:2 n2:2 n3:2 n4:2 n5:2 n6:2 v1:3 v2:4
  is "$(order n6)" 'n1 v1 v2 n2 n3 n4 n5 n6'
}

@test "a client with many requests does not delay other clients if the queue is full" {
  start_site 'VhostLimitQueue 2 60s'
  hold_request held
  queue_up n1:2 n2:2 n3:2 n4:2 n5:2 n6:2 v1:3 v2:4
  # n1 and n2 are queued before the other clients come; v1 and v2 get the next places.
  is "$(order n6)" 'n1 v1 v2 n2 n3 n4 n5 n6'
}

@test "with VhostLimitClients Off requests are served in order of arrival" {
  start_site 'VhostLimitClients Off'
  hold_request held
  queue_up n1:2 n2:2 n3:2 v1:3 v2:4
  is "$(order v2)" 'n1 n2 n3 v1 v2'
}

@test "addresses of one prefix are one client" {
  start_site 'VhostLimitClients On 24 64'
  hold_request held
  queue_up n1:2 n2:3 n3:4 v1:5
  is "$(order v1)" 'n1 n2 n3 v1'
}

@test "classes share by weight, and clients share inside a class" {
  start_site 'VhostLimitClass bots weight=1 "%{HTTP_USER_AGENT} =~ /bot/"'
  hold_request held
  # The request that holds the slot is charged to the class of v1.
  queue_up b1:2:bot b2:3:bot b3:4:bot v1:5 v2:6 v3:6 v4:7
  is "$(order b3)" 'b1 v1 v2 v4 v3 b2 b3'
}

@test "known clients have their share beside strangers" {
  start_site 'VhostLimitKnown Address'
  is "$(get a /page.html --interface 127.0.0.9)" 200
  settles a running 0
  hold_request held
  # The request that holds the slot is charged to the strangers.
  queue_up s1:11 s2:12 s3:13 k1:9 k2:9
  is "$(order s3)" 'k1 k2 s1 s2 s3'
}

@test "VhostLimitKnown Cookie: the cookie marks a client as known and is hidden from the site" {
  start_site 'VhostLimitKnown Cookie share=80 ttl=10min'
  local cookie
  is "$(get a '/cgi/cookies.sh?private')" 200
  cookie=$(answer_head Set-Cookie)
  like "$cookie" '^vhostlimit-known=[0-9]+\.[0-9a-f]{16};Max-Age=600;Path=/;HttpOnly;SameSite=Lax'
  cookie=${cookie%%;*}
  is "$(get a '/cgi/cookies.sh?private' -H "Cookie: $cookie; site=1")" 200
  is "$(answer_head Set-Cookie)" '' 'a known client gets no new one'
  is "$(answer_body | grep -c vhostlimit-known)" 0 'the site sees the cookie'
  is "$(answer_body | grep -c 'site=1')" 1 'the site sees its own cookie'
  is "$(get a '/cgi/cookies.sh?private' -H "Cookie: ${cookie%.*}.0123456789abcdef")" 200
  like "$(answer_head Set-Cookie)" '^vhostlimit-known='
  settles a running 0
  hold_request held
  queue_up s1:11 s2:12 s3:13 s4:14 s5:15
  begin_request k1 a '/cgi/hold.sh?k1' --interface 127.0.0.16 -H "Cookie: $cookie"
  wait_until 20 has_waiting a 6
  is "$(order s5)" 'k1 s1 s2 s3 s4 s5'
}

@test "a kept connection whose last request had no cookie waits as a stranger" {
  local kept cookie line
  start_site 'VhostLimitClients Off' 'VhostLimitKnown Cookie'
  is "$(get a '/cgi/cookies.sh?private')" 200
  cookie=$(answer_head Set-Cookie)
  exec {kept}<>"/dev/tcp/127.0.0.1/$(httpd_port)"
  for line in "Cookie: ${cookie%%;*}" 'X: none'; do
    printf 'GET /page.html HTTP/1.1\r\nHost: a.test\r\n%s\r\n\r\n' "$line" >&"$kept"
    while read -r -u "$kept" line && [[ $line != 'page of a' ]]; do :; done
  done
  settles a running 0
  hold_request held
  queue_up s1:11
  printf 'GET /cgi/hold.sh?k1 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n' >&"$kept"
  wait_until 20 has_waiting a 2
  is "$(order s1)" 's1 k1'
  exec {kept}>&-
}

@test "VhostLimitKnown Cookie: a response that a shared cache may store has no cookie" {
  local query
  start_site 'VhostLimitKnown Cookie' 'DirectoryIndex /cgi/cookies.sh'
  for query in '' '?max-age=60' '?public' '?no-cache' '?s-maxage=5,max-age=0'; do
    is "$(get a "/cgi/cookies.sh$query")" 200
    is "$(answer_head Set-Cookie)" '' "a cookie, $query"
  done
  is "$(get a /page.html)" 200
  is "$(answer_head Set-Cookie)" '' 'a cookie of a file'
  for query in private 'max-age=0,no-store' no-store,public; do
    is "$(get a "/cgi/cookies.sh?$query")" 200
    like "$(answer_head Set-Cookie)" '^vhostlimit-known=' "$query"
  done
  is "$(get a /cgi/cookies.sh -X POST)" 200
  like "$(answer_head Set-Cookie)" '^vhostlimit-known=' POST
  is "$(get a '/?private')" 200
  like "$(answer_head Set-Cookie)" '^vhostlimit-known=' 'after an internal redirect'
}

@test "behind a trusted proxy the address of mod_remoteip is the client" {
  local name number queued=1
  start_site -l remoteip 'RemoteIPHeader X-Real' 'RemoteIPInternalProxy 127.0.0.0/8'
  hold_request held
  # mod_remoteip is asked while a request of the site waits.
  queue_up s1:2
  for name in n1:1 n2:1 n3:1 v1:2 v2:3; do
    number=${name#*:} name=${name%:*}
    begin_request "$name" a "/cgi/hold.sh?$name" -H "X-Real: 192.0.2.$number" -H 'X-Forwarded-For: example.com'
    wait_until 20 has_waiting a $((queued += 1))
  done
  is "$(order n3)" 's1 n1 v1 v2 n2 n3'
  is "$(ask 'clients\ta.test\n' | jq -c '[.clients[].address] | sort')" \
    '["127.0.0.1/32","127.0.0.2/32","192.0.2.1/32","192.0.2.2/32","192.0.2.3/32"]'
}

# The same as begin_request, over a connection from 127.0.0.5 with a PROXY header.
begin_proxied() { # <name> <number of 192.0.2.0>
  local answer
  answer=$HTTPD_ROOT/hold/$1
  (
    LOCAL_ADDRESS=127.0.0.5 packets "PROXY TCP4 192.0.2.$2 127.0.0.1 1111 80\r\nGET /cgi/hold.sh?$1 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n" \
      >"$answer.text"
    sed -n '1s/^HTTP[^ ]* \([0-9]*\).*/\1/p' "$answer.text" >"$answer.code.part"
    mv "$answer.code.part" "$answer.code"
  ) 3>&- 4>&- &
}

@test "behind a PROXY header the address in it is the client, and expressions of classes see it" {
  local name number queued=0
  requires mod_remoteip
  start_site -l remoteip 'RemoteIPProxyProtocol On' 'RemoteIPProxyProtocolExceptions 127.0.0.1' \
    "VhostLimitClass odd weight=1 \"%{REMOTE_ADDR} == '192.0.2.3'\"" "VhostLimitClass lab weight=100 \"-R '192.0.2.0/24'\""
  hold_request held a --haproxy-protocol --interface 127.0.0.6
  for name in n1:1 n2:1 n3:1 v1:2 o1:3; do
    number=${name#*:} name=${name%:*}
    begin_proxied "$name" "$number"
    wait_until 20 has_waiting a $((queued += 1))
  done
  # Where the connections of a flood come from counts for none of them.
  is "$(ask 'clients\ta.test\n' | jq -c '[.waiting, .clients_waiting, .most.waiting, [.classes[] | [.name, .waiting]]]')" \
    '[5,3,3,[["other",0],["odd",1],["lab",4]]]'
  release_request held
  is "$(answer_of n3) $(answer_of v1) $(answer_of o1)" '200 200 200'
  settles a running 0
  like "$(begun '[nvo][0-9]')" 'n1 v1 n2 n3'
  is "$(ask 'clients\ta.test\n' | jq -c '[.clients[] | [.address, .class]] | sort')" \
    '[["127.0.0.6/32","other"],["192.0.2.1/32","lab"],["192.0.2.2/32","lab"],["192.0.2.3/32","odd"]]'
}

@test "the status shows the classes of a site and how many clients wait, and no address" {
  local sample
  start_site 'VhostLimitClass bots weight=1 "%{HTTP_USER_AGENT} =~ /bot/"'
  hold_request held
  queue_up n1:2 n2:2 v1:3 b1:4:bot
  is "$(status_json | jq -c '.vhosts[] | select(.name == "a.test") | [.clients_waiting, (.classes[] | [.name, .weight, .waiting])]')" \
    '[3,["other",100,3],["bots",1,1]]'
  is "$(status_json | jq -c '.vhosts[] | select(.name == "b.test") | [.clients_waiting, .classes]')" '[0,[]]'
  is "$(status_json | grep -c '127\.0\.0\.[234]')" 0 'addresses on the page'
  get status '/vhostlimit?prometheus' >/dev/null
  for sample in 'class_requests_waiting{vhost="a.test",class="other"} 3' 'class_requests_waiting{vhost="a.test",class="bots"} 1' \
    'class_weight{vhost="a.test",class="bots"} 1' 'clients_waiting{vhost="a.test"} 3' 'requests_late_total{vhost="a.test"} 0'; do
    grep -qxF "vhostlimit_$sample" <<<"$(answer_body)" || fail "$sample"
  done
  is "$(answer_body | grep -cE '127\.0\.0\.')" 0 'addresses in the metrics'
  is "$(order n2)" 'b1 n1 v1 n2'
  is "$(status_json | jq -c '.vhosts[] | select(.name == "a.test") | [.clients_waiting, (.classes[] | [.waiting, .requests])]')" \
    '[0,[0,4],[0,1]]'
  at_least "$(status_json | jq '.vhosts[] | select(.name == "a.test") | [.classes[].cpu_permille] | add')" 998 'permille of all classes'
  get status '/vhostlimit?prometheus' >/dev/null
  like "$(answer_body)" $'\nvhostlimit_class_requests_total\\{vhost="a.test",class="other"\\} 4\n'
  like "$(answer_body)" $'\nvhostlimit_class_cpu_seconds_total\\{vhost="a.test",class="bots"\\} 0\\.[0-9]{6}\n'
}

@test "a request that has waited for as long as other clients of its site do is late, and counted once" {
  start_site
  hold_request held
  queue_up n1:2
  is "$(status_of a late)" 0
  begin_request impatient a /page.html --interface 127.0.0.3 -m 3
  begin_request another a /page.html --interface 127.0.0.3 -m 5
  settles a gone 2
  queue_up v1:4
  is "$(status_of a late)" 1
  is "$(order n1)" 'v1 n1'
  is "$(status_of a late)" 1
}

@test "explain names the client and the class that have most of a site's queue, and clients shows them" {
  requires root ctl
  start_site 'VhostLimitClass bots weight=1 "%{HTTP_USER_AGENT} =~ /bot/"'
  hold_request held
  queue_up b1:2:bot b2:2:bot b3:2:bot v1:3
  try ctl explain a.test
  like "$output" 'One client has 3 of the 4 waiting requests; .* Next: vhostlimitctl clients a\.test\.'
  like "$output" 'The class bots \(weight 1\) has 3 of the 4 waiting requests; '
  is "$(ctl explain --json a.test | jq -c .causes)" '["concurrency","client","class"]'
  try ctl clients a.test
  like "$output" $'\n4 requests of 2 clients wait; one client has 3 of them\\.\n'
  like "$output" $'\nCLASS +WEIGHT +WAITING +REQUESTS +CPU s\nother +100 +1 +0 +0\\.000\nbots +1 +3 +0 +0\\.000\n'
  # A client that was granted a slot has an address.
  release_request held
  is "$(answer_of b3)" 200
  settles a running 0
  hold_request again
  queue_up c1:2:bot c2:2:bot c3:2:bot w1:3
  like "$(ctl explain a.test)" 'One client \(127\.0\.0\.2/32\) has 3 of the 4 waiting requests'
  like "$(ctl clients a.test)" 'one client \(127\.0\.0\.2/32\) has 3 of them\.'
  release_request again
  is "$(answer_of c3)" 200
}

@test "errors in the three directives are reported" {
  refuse_lines <<'END'
VhostLimitClients Maybe|VhostLimitClients: 'Maybe' is not one of On, Off
VhostLimitClients On 33|'33' is not the length of an IPv4 prefix, a whole number from 8 to 32
VhostLimitClients On 24 8|'8' is not the length of an IPv6 prefix, a whole number from 16 to 128
VhostLimitClass a/b weight=1 "true"|VhostLimitClass: 'a/b' is not a name of up to 32 letters
VhostLimitClass other weight=1 "true"|'other' is not a name
VhostLimitClass bots weight=0 "true"|VhostLimitClass bots: 'weight=0' is not weight= and a whole number from 1 to 10000
VhostLimitClass bots weight=1 "("|VhostLimitClass bots: '(':
VhostLimitClass bots weight=1 "-A '/x'"|look something up
VhostLimitKnown Perhaps|VhostLimitKnown: 'Perhaps' is not one of Off, Address, Cookie
VhostLimitKnown Address share=100|VhostLimitKnown: 'share=100' is neither share= and a percentage
VhostLimitKnown Address ttl=0|VhostLimitKnown: 'ttl=0' is neither
END
}

@test "root sees the clients and classes of a site, in order of their CPU time" {
  start_site 'VhostLimitClass bots weight=1 "%{HTTP_USER_AGENT} =~ /bot/"' 'VhostLimitClients On 24'
  is "$(ask 'clients\ta.test\n' | jq -c '[.contended, .classes[].name, .clients]')" '[false,"other","bots",[]]'
  hold_request held
  queue_up n1:2 n2:2 b1:3:bot
  is "$(ask 'clients\ta.test\n' | jq .contended)" true
  is "$(order n2)" 'b1 n1 n2'
  is "$(ask 'clients\ta.test\n' | jq -c '[.clients[] | [.address, .class, .known, .requests]] | sort')" \
    '[["127.0.0.0/24","bots",false,1],["127.0.0.0/24","other",false,3]]'
  is "$(ask 'clients\ta.test\n' | jq '[.clients[].cpu_us] | . == (sort | reverse)')" true
  is "$(ask 'clients\ta.test\n' | jq -c '[.classes[] | [.name, .weight, .waiting, .requests]]')" \
    '[["other",100,0,3],["bots",1,0,1]]'
  is "$(status_json | jq -c 'del(.vhosts[].virtual_hosts)' | grep -c '127\.0\.0\.')" 0 'addresses of clients on the status page'
  is "$(error_of 'clients\n')" "'clients' is no site is named"
  is "$(error_of 'clients\tunknown.test\n')" "'unknown.test' is no site that takes part"
}
