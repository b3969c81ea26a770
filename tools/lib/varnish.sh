# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Varnish behind the test bed's Apache: the sites' virtual hosts with TLS pass each request
# to it, and it passes the request to those without TLS.  Part of bed.sh.

varnish_address=127.0.0.1:8080

varnish_start() {
  need varnishd
  template_render "$(in_tree conf/testbed/varnish.vcl.in)" "$bed_dir/varnish.conf" BACKEND="$bed_address"
  (server_exec varnishd -j none -n "$bed_dir/varnish" -P "$bed_dir/varnish.pid" -s malloc,32m \
    -a "$varnish_address" -f "$bed_dir/varnish.conf") </dev/null >"$bed_dir/varnish.out" 2>&1 ||
    die "Varnish did not start: $(tail -n 3 "$bed_dir/varnish.out")"
}

varnish_lines() { # of the virtual hosts with TLS
  printf '%s\n' 'ProxyPreserveHost On' "ProxyPass / http://$varnish_address/" '<Proxy "*">' "$(bed_allowed apache)" '</Proxy>'
}
