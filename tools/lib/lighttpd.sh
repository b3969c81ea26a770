# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# lighttpd in Apache's place, on the same pages and the same PHP-FPM.

lighttpd_start() {
  local binary user group
  bed_httpd_stop
  binary=$(command -v lighttpd)
  user=$(httpd_user)
  group=$(id -gn "$user")
  install -m 644 -o "$user" -g "$group" /dev/null "$bed_dir/lighttpd.log"
  httpd_ports_free "$(bed_server_net)" 80
  template_render "$(in_tree conf/testbed/lighttpd.conf.in)" "$bed_dir/lighttpd.conf" \
    DIR="$bed_dir" USER="$user" GROUP="$group" ADDRESS="$bed_address" \
    ALLOWED="$(bed_allowed lighttpd)"
  (server_exec "$binary" -f "$bed_dir/lighttpd.conf") </dev/null >>"$bed_dir/lighttpd.out" 2>&1 ||
    die "lighttpd did not start: $(tail -n 3 "$bed_dir/lighttpd.out")"
  poll_until 30 bed_answers 1 || die "lighttpd does not answer within 30 s: $(tail -n 3 "$bed_dir/lighttpd.out")"
}
