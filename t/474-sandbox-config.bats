#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# VhostLimitSandbox and VhostLimitSandboxPath: values, what cannot be together, and
# systems without the feature.

load lib/live
load lib/sandbox
load lib/control
load lib/fault

# A wrong configuration: httpd -t fails and says why.
wrong() { # <message> <line>...
  mkdir -p "$HTTPD_ROOT"
  check_config 'VhostLimit On' "${@:2}"
  is "$status" 1
  like "$output" "$1"
}

right() { # <message> <line>...
  mkdir -p "$HTTPD_ROOT"
  check_config 'VhostLimit On' "${@:2}"
  is "$status" 0
  like "$output" "$1"
}

@test "wrong values are refused with the values that are right" {
  wrong "VhostLimitSandbox: 'On' is not one of Off, Files, Full" -v 'a VhostLimitSandbox On'
  wrong "VhostLimitSandboxPath: 'rx' is not one of ro, rw, tmp, hide" -v 'a VhostLimitSandboxPath rx /opt'
  wrong "VhostLimitSandboxPath: 'opt' is not an absolute path below /" -v 'a VhostLimitSandboxPath ro opt'
  wrong "VhostLimitSandboxPath: '/' is not an absolute path below /" -v 'a VhostLimitSandboxPath ro /'
  wrong "VhostLimitSandboxPath: '/opt/\.\.' is not an absolute path below /" -v 'a VhostLimitSandboxPath ro /opt/..'
  wrong "VhostLimitSandboxConnect: '65536' is not any, none, udp, a port from 1 to 65535 or an absolute path" -v 'a VhostLimitSandboxConnect 443 65536'
  wrong 'VhostLimitSandbox not allowed (here|in)' "<Directory /tmp>
VhostLimitSandbox Full
</Directory>"
}

@test "a path that does not exist, and tmp with Files, stop the start" {
  wrong 'VL0072: site a\.test: VhostLimitSandboxPath: /none does not exist\. The server does not start' \
    -v 'a VhostLimitSandbox Full' -v 'a VhostLimitSandboxPath ro /opt /none'
  wrong 'VL0072: site a\.test: VhostLimitSandboxPath tmp /opt needs VhostLimitSandbox Full' \
    -v 'a VhostLimitSandbox Files' -v 'a VhostLimitSandboxPath tmp /opt'
}

@test "two virtual hosts of a site cannot have different sandboxes" {
  wrong 'VL0015: site a\.test: VhostLimitSandbox is Full in .* and Files in' -v 'a VhostLimitSandbox Full' \
    -v 'b ServerName a.test' -v 'b VhostLimitSandbox Files'
}

@test "suexec and a sandbox cannot be together" {
  requires root mod_suexec
  [[ -u $(suexec_program) ]] || skip "suexec is not installed"
  wrong 'VL0072: site a\.test: suexec is a setuid program' -l suexec -v 'a VhostLimitSandbox Full' -v "a SuexecUserGroup $(httpd_user) $(id -gn "$(httpd_user)")"
  right 'Syntax OK' -l suexec -v 'a VhostLimitSandbox Full' -v "b SuexecUserGroup $(httpd_user) $(id -gn "$(httpd_user)")"
}
suexec_program() { printf '%s\n' "$("$(httpd_program)" -V | sed -n 's/.*SUEXEC_BIN="\(.*\)"/\1/p')"; }

@test "mpm_itk and a sandbox cannot be together" {
  requires root mpm_itk prefork
  mkdir -p "$HTTPD_ROOT"
  check_config -m prefork -x "LoadModule mpm_itk_module $(httpd_module_dir)/mpm_itk.so" 'VhostLimit Off' -v 'a VhostLimitSandbox Full'
  is "$status" 1
  like "$output" 'VL0072: site a\.test: mpm_itk changes the user'
}

@test "modules whose programs run outside: open warns, closed stops the start" {
  requires root userns landlock mod_cgid
  local why='VL0070: site a\.test has no complete sandbox \(VhostLimitSandbox full\): mod_cgid starts programs from its daemon'
  BASE_MODULES=${BASE_MODULES/ cgi/}
  right "$why.* Its programs run without what is missing \(VhostLimitOnError open\).*Syntax OK" -l cgid -v 'a VhostLimitSandbox Full'
  wrong "$why.* The server does not start \(VhostLimitOnError closed\)" -l cgid 'VhostLimitOnError closed' -v 'a VhostLimitSandbox Full'
}

@test "Files cannot hide what is below a folder that the site may read" {
  requires root landlock
  # shellcheck disable=SC2030
  HTTPD_ROOT=/run/vl-sandbox-config            # not below /tmp, which may be written to
  right 'VL0070: site a\.test .*Files cannot take away rights to .*/sub below .*/a: write VhostLimitSandbox Full' \
    -v 'a VhostLimitSandbox Files' -v "b DocumentRoot $HTTPD_ROOT/htdocs/a/sub"
  right 'VL0070: site a\.test .*Files cannot take away rights to /usr/share below /usr' -v 'a VhostLimitSandbox Files' -v 'a VhostLimitSandboxPath hide /usr/share'
}

need_mpm_itk() { [[ -e $(httpd_module_dir)/mpm_itk.so ]] || { echo "no mpm_itk"; return 1; }; }

# A server on a kernel without the system call: seccomp refuses it to httpd itself.
without() { # <system call>
  local real
  real=$(httpd_program)
  cat >"$BATS_FILE_TMPDIR/without.c" <<END
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char *argv[])
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    if (!ctx || seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS($1), 0) || seccomp_load(ctx))
        return 1;
    return execv("$real", argv);
}
END
  rm -f "$BATS_FILE_TMPDIR/without"
  sandbox_compile without "$BATS_FILE_TMPDIR/without.c" -lseccomp
  httpd_program() { echo "$BATS_FILE_TMPDIR/without"; }
}

@test "a kernel without Landlock: open serves without Files, and the status page says so" {
  requires root cc landlock seccomp
  without landlock_create_ruleset
  start_httpd 'VhostLimit On' "$PROGRAMS" -v 'a VhostLimitSandbox Files'
  error_log_has 'VL0070: site a\.test .*the kernel has no Landlock'
  site_program a look.sh <<<'ls -d /sys/fs'
  is "$(run_program a look.sh)" /sys/fs
  like "$(status_of a unenforced)" '^VhostLimitSandbox files: the kernel has no Landlock'
  try ctl doctor
  like "$output" 'PROBLEM sandbox: 1 site without a complete sandbox: VhostLimitSandbox files: the kernel has no Landlock'
}

@test "a kernel without Landlock: closed stops the start" {
  requires root cc landlock seccomp
  without landlock_create_ruleset
  wrong 'VL0070: .*the kernel has no Landlock.*The server does not start' 'VhostLimitOnError closed' -v 'a VhostLimitSandbox Files'
}

@test "an old kernel: Full says which version it needs" {
  requires root cc userns seccomp
  without mount_setattr
  right 'VL0070: site a\.test .*the kernel is older than Linux 5\.12' -v 'a VhostLimitSandbox Full'
}

export LOG_MAY_SAY='VL0070|exit signal Killed'
@test "a kernel that cannot limit ports: doctor says so, and a list without ports needs no Landlock" {
  requires root cc landlock userns seccomp
  without landlock_create_ruleset
  start_httpd 'VhostLimit On' "$PROGRAMS" -v 'a VhostLimitSandbox Full' -v 'a VhostLimitSandboxConnect 443' \
    -v 'b VhostLimitSandbox Full' -v 'b VhostLimitSandboxConnect none'
  error_log_has 'VL0070: site a\.test .*cannot limit TCP to the ports of VhostLimitSandboxConnect \(Linux 6\.7 with Landlock can\)'
  is "$(status_of b unenforced)" ''
  try ctl doctor
  like "$output" 'PROBLEM sandbox: 1 site without .*cannot limit TCP'
  site_program b look.sh <<<"bash -c ': </dev/tcp/127.0.0.1/$(httpd_port)' || echo none"
  like "$(run_program b look.sh)" 'Operation not permitted.*none'
}

@test "Files limits Unix sockets by path on new kernels only, and says so" {
  requires root landlock seccomp
  local list=(-v 'a VhostLimitSandbox Files' -v 'a VhostLimitSandboxConnect /run/mysqld')
  if perl -e 'exit(syscall(444, 0, 0, 1) >= 9)'; then
    right 'VL0070: site a\.test .*cannot limit Unix sockets to the paths .*Linux 7\.1' "${list[@]}"
    wrong 'VL0070: site a\.test .*The server does not start' 'VhostLimitOnError closed' "${list[@]}"
  else
    right 'Syntax OK' "${list[@]}"
    is "$(grep -c VL0070 <<<"$output")" 0 "warnings"
  fi
}

@test "a machine that allows no user namespaces: Full names the setting" {
  requires root userns
  echo 0 >"$BATS_TEST_TMPDIR/none"
  mount --bind "$BATS_TEST_TMPDIR/none" /proc/sys/user/max_user_namespaces
  right 'VL0070: site a\.test .*the setting user\.max_user_namespaces is 0' -v 'a VhostLimitSandbox Full'
  umount /proc/sys/user/max_user_namespaces
  right 'Syntax OK' -v 'a VhostLimitSandbox Full'
  is "$(grep -c VL0070 <<<"$output")" 0 "warnings"
}

@test "a file system that does not answer keeps neither vhostlimitctl unit nor a restart waiting" {
  requires root cc
  start_frail 'VhostLimit On' "${ONE_CHILD[@]}" -v 'b VhostLimitSandbox Full'
  runs_short openat
  like "$(ask 'sandbox\ta.test\n' | jq -r '.mode, (.rules[] | select(.access == "rw").path)')" $'^off\n/.*/htdocs/a$'
  like "$(ask 'sandbox\tb.test\n' | jq -r '.mode, (.rules[] | select(.access == "rw").path)')" $'^full\n/.*/htdocs/b$'
  [[ ! -e $SHORT/stalled.$(httpd_pid) ]]
  has_enough openat
}

# Prints what a program of the site can read of the paths.
# shellcheck disable=SC2031  # each test that calls it sets HTTPD_ROOT
reads() { # <vhost> <path>...
  local vhost=$1
  printf '#!/bin/sh\nprintf "Content-Type: text/plain\\r\\n\\r\\n"\ncat %s 2>/dev/null\n' "${*:2}" >"$HTTPD_ROOT/cgi/read.sh"
  chmod 755 "$HTTPD_ROOT/cgi/read.sh"
  run_program "$vhost" cgi/read.sh
}

# The folder of each site belongs to its owner, and the programs run as Apache's user.
@test "a link that a site's owner makes to other files gives the site's programs nothing" {
  requires root landlock userns
  HTTPD_ROOT=/run/vl-sandbox-config            # not below /tmp, which Files may read
  local home=$HTTPD_ROOT/home other=$HTTPD_ROOT/other site owner link
  start_httpd 'VhostLimit On' -v 'a VhostLimitSandbox Full' -v 'b VhostLimitSandbox Files' -v "a DocumentRoot $home/a/docs" -v "b DocumentRoot $home/b/docs"
  mkdir -p "$home"/{a,b} "$other"
  chmod 711 "$home" "$HTTPD_ROOT"
  echo theirs | tee "$other/secret" >"$HTTPD_ROOT/htdocs/c/secret"
  chown -R 4711 "$home/a" "$home/b" "$other"
  # The owner's link to files of another owner; the link of Apache's user, which all programs
  # have; a link to a site, to a folder in it and to one that contains it.
  while read -r owner link; do
    for site in a b; do
      ln -sfn "$link" "$home/$site/docs"
      chown -h "$owner" "$home/$site/docs"
    done
    graceful_httpd
    for site in a b; do
      is "$(reads "$site" "$home/$site/docs/secret" "$home/$site/docs/c/secret" "$HTTPD_ROOT/htdocs/c/secret" "$other/secret")" '' "$site, link of $owner to $link" || return
      error_log_has "VL0074: site $site\.test: $home/$site/docs leads to $link, which"
    done
  done <<<"4712 $other
$(httpd_user) $other
root $HTTPD_ROOT/htdocs/c
root $HTTPD_ROOT/htdocs/c/sub
root $HTTPD_ROOT/htdocs"
}

@test "links of the administrator, of a site's owner to its own files and inside a folder work" {
  requires root landlock userns
  HTTPD_ROOT=/run/vl-sandbox-config
  local home=$HTTPD_ROOT/home own=$HTTPD_ROOT/own owner folder link site
  start_httpd 'VhostLimit On' -v 'a VhostLimitSandbox Full' -v 'b VhostLimitSandbox Files' -v "a DocumentRoot $home/a/docs" -v "b DocumentRoot $home/b/docs"
  mkdir -p "$home"/{a,b}/release "$own"/{a,b}
  chmod 711 "$home" "$HTTPD_ROOT"
  echo mine | tee "$own"/{a,b}/file "$home"/{a,b}/release/file >/dev/null
  chown -R 4711 "$home" "$own"
  while read -r owner folder link; do
    for site in a b; do
      ln -sfn "${link/SITE/$site}" "$home/$site/docs"
      chown -h "$owner" "$home/$site/docs"
      chown "$folder" "$home/$site" "$home"
    done
    graceful_httpd
    for site in a b; do
      is "$(reads "$site" "$home/$site/docs/file")" mine "$site, link of $owner to $link" || return
    done
  done <<<"4711 4711 $own/SITE
4711 4711 release
root 4711 $own/SITE
root root $own/SITE"
  is "$(grep -c VL0074 "$HTTPD_ROOT/logs/error.log")" 0 "warnings"
}

@test "closed: after a restart that cannot make the sandbox no program starts" {
  requires root userns landlock
  start_httpd 'VhostLimit On' "$PROGRAMS" 'VhostLimitOnError closed' -v 'a VhostLimitSandbox Full'
  site_program a hello.sh <<<'echo hello'
  is "$(run_program a hello.sh)" hello
  configure_httpd 'VhostLimit On' "$PROGRAMS" 'VhostLimitOnError closed' -v 'a VhostLimitSandbox Full' -v 'a VhostLimitSandboxPath hide /bin /usr/bin'
  graceful_httpd
  error_log_has 'VL0070: site a\.test .*Programs that would start outside of it do not start'
  is "$(get a /hello.sh)" 500
}
