# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The test bed's sites over TLS and HTTP/2 instead of cleartext, or beside it, with one
# self-signed certificate.  Part of bed.sh, which has the variables.

bed_tls_modules() {
  echo ssl
  echo socache_shmcb
  [[ ${bed[mpm]} == prefork ]] || echo http2      # mod_http2 does not work there
}

bed_tls_files() { # once for each bed
  local names
  [[ ! -e $bed_dir/tls/cert.pem ]] || return 0
  names=$(printf ',DNS:%s.test' "${bed_sites[@]}")
  mkdir -p "$bed_dir/tls"
  chmod 700 "$bed_dir/tls"
  openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=vhostlimit-testbed \
    -addext "subjectAltName=${names#,}" -keyout "$bed_dir/tls/key.pem" -out "$bed_dir/tls/cert.pem" \
    2>"$bed_dir/tls/out" || die "openssl could not make a certificate: $(tail -n 1 "$bed_dir/tls/out")"
  cat "$bed_dir/tls/cert.pem" "$bed_dir/tls/key.pem" >"$bed_dir/tls/both.pem"      # as HAProxy wants them
}

bed_tls_config() {
  bed_apache_has_tls || return 0
  bed_tls_files
  template_render "$(in_tree conf/testbed/tls.conf.in)" "$bed_dir/tls.conf" DIR="$bed_dir"
  cat "$bed_dir/tls.conf"
}

# The sites over http beside https.
bed_clear_vhosts() {
  local site
  [[ ${bed[tls]} == both ]] || return 0
  printf 'Listen %s:80\n' "$bed_address"
  for site in "${bed_sites[@]}"; do
    bed_vhost "$site" "$bed_address:80" ''
  done
}
