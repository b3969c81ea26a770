# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The test bed's hello.cgi in bubblewrap, a sandbox made for each request.

sandbox_prepare() {
  local bwrap user
  bwrap=$(command -v bwrap)
  gcc -O2 -static -DBWRAP="\"$bwrap\"" -DDIR="\"$bed_dir/www/site1\"" -o "$bed_dir/www/sandbox.cgi" \
    "$(in_tree tools/lib/cgi-sandbox.c)" || die 'cgi-sandbox.c did not compile'
  user=$(httpd_user)
  setpriv --reuid "$user" --regid "$user" --clear-groups "$bed_dir/www/sandbox.cgi" >/dev/null 2>"$bed_dir/sandbox.err" ||
    cannot "bubblewrap cannot make a sandbox here as $user: $(tail -n 1 "$bed_dir/sandbox.err")"
}

sandbox_lines() { printf 'Alias /hello.cgi "%s/www/sandbox.cgi"\n' "$bed_dir"; }
