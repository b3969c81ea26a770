# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# nginx in front of the test bed's Apache, with limits for each site.  Part of bed.sh.

nginx_start() {
  local backend port allowed user cpus
  need nginx
  backend=$(bed_backend)
  port=$(bed_port)
  allowed=$(bed_allowed nginx)
  user=$(httpd_user)
  cpus=$(cpu_server | tr , '\n' | wc -l)
  template_render "$(in_tree conf/testbed/nginx.conf.in)" "$bed_dir/nginx.conf" \
    DIR="$bed_dir" USER="$user" CPUS="$cpus" FILES="$(bed_front_files)" ADDRESS="$bed_address" BACKEND="$backend" PORT="$port" ALLOWED="$allowed" \
    RATE="${bed[rate]}" BURST="$((10 * bed[rate]))" EACH="$(bed_part)"
  (server_exec nginx -c "$bed_dir/nginx.conf" -e "$bed_dir/nginx.log") </dev/null >"$bed_dir/nginx.out" 2>&1 ||
    die "nginx did not start: $(tail -n 3 "$bed_dir/nginx.out")"
}
