#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# vhostlimitctl import: limits of CloudLinux and mod_qos as our configuration.

load lib/live
load lib/control
load lib/imports

setup() { requires ctl; mkdir -p "$HTTPD_ROOT"; }

# Imports the text on standard input, and has the server take what comes out.
import() { # <lve|mod_qos> [<as configure_httpd>]...
  cat >"$BATS_TEST_TMPDIR/in"
  "$CTL" import "$1" "$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" || return
  check_config "${@:2}" -x "Include \"$BATS_TEST_TMPDIR/out\""
  is "$status" 0 "$(<"$BATS_TEST_TMPDIR/out")"
  output=$(<"$BATS_TEST_TMPDIR/out")
}

@test "CloudLinux: defaults and packages become plans, and LVEs become sections of groups" {
  import lve -v 'a VhostLimitGroup root' <<'EOT'
<?xml version="1.0" ?>
<lveconfig>
	<defaults>
		<cpu limit="100%"/><io limit="1024"/><pmem limit="262144"/><nproc limit="100"/><other maxentryprocs="20"/>
	</defaults>
	<package id="Gold &amp; &lt;more&gt;">
		<cpu limit="150%"/><iops limit="512"/><nproc limit="0"/>
	</package>
	<lve id="0"><other maxentryprocs="7"/><mem limit="1024"/></lve>
	<lve id="3999999"><cpu limit="3000mhz"/></lve>
</lveconfig>
EOT
  like "$output" $'<VhostLimitPlan lve-default>\n    VhostLimitCPU 100%\n    VhostLimitConcurrency 20\n    VhostLimitMemory 1048576K\n    VhostLimitProcesses 100\n    VhostLimitIO 1024K\n</VhostLimitPlan>\nVhostLimitPlan lve-default'
  like "$output" $'# Package Gold & <more>\n<VhostLimitPlan Gold____more_>\n    VhostLimitCPU 150%\n    VhostLimitConcurrency 20\n    VhostLimitMemory 1048576K\n    VhostLimitIO 1024K\n    # iops 512: no equivalent\n</VhostLimitPlan>'
  like "$output" $'<VhostLimitSite "@root">\n    VhostLimitConcurrency 7\n    # virtual memory of 4096K: no equivalent'
  like "$output" $'LVE 3999999, a user that this machine does not have.*<VhostLimitSite "@uid-3999999">\n    # cpu 3000mhz: no equivalent'
}

@test "CloudLinux: a CPU limit in the old form is a part of all processors, and ncpu limits it" {
  import lve <<<'<lveconfig><defaults><cpu limit="50"/><ncpu limit="1"/></defaults><package id="p"><cpu limit="25"/><ncpu limit="1000"/></package></lveconfig>'
  local processors
  processors=$(getconf _NPROCESSORS_ONLN)
  like "$output" "this machine has $processors"
  is "$(grep VhostLimitCPU <<<"$output" | xargs)" "VhostLimitCPU $((processors * 50 < 100 ? processors * 50 : 100))% VhostLimitCPU $((processors * 25))%"
}

@test "an invalid ve.cfg is an error, and the message names the line" {
  try "$CTL" import lve - <<<'<html></html>'
  like "$status $output" '^1 .*no <lveconfig>'
  try "$CTL" import lve - <<<$'<lveconfig>\n<lve id="5">\n</lveconfig>'
  like "$status $output" '^1 .*-:3: mismatched tag'
  try "$CTL" import lve /nowhere
  like "$status $output" '^1 .*/nowhere cannot be read: No such file'
  try "$CTL" import cpanel /nowhere
  is "$status" 2
}

@test "mod_qos: limits of a whole virtual host are translated, and comments explain the others" {
  import mod_qos <<'EOT'
QS_ErrorResponseCode 429
QS_SrvMaxConnPerIP 40
qs_logonly on
<VirtualHost *:80>
  ServerName https://A.test:443
  QS_LocRequestLimit / 30
  QS_LocRequestLimitMatch "^/(app|api)/.*$" \
      15
  QS_DenyPath +id deny "(\\n)"
</VirtualHost>
<VirtualHost *:80>
  QS_LocRequestLimitDefault 12
  # QS_LocRequestLimit / 99
</VirtualHost>
<VirtualHost *:80>
  ServerName quiet.test
</VirtualHost>
EOT
  like "$output" $'# QS_LogOnly was on\.\nVhostLimit DryRun\nVhostLimitStatusCode 429\n# QS_SrvMaxConnPerIP 40: not needed for fairness'
  like "$output" $'<VhostLimitSite "A\.test">\n    VhostLimitConcurrency 30\n.*    # QS_LocRequestLimitMatch "\\^/\(app\|api\)/\.\*\\$" +15: limits a part of a site.*QS_DenyPath .*: no equivalent.*\n</VhostLimitSite>'
  like "$output" $'# A virtual host without ServerName\..*#    VhostLimitConcurrency 12\n#</VirtualHost>'
  [[ $output != *quiet* && ${output#*$'\n'} != *99* ]] || fail "$output"
}

@test "every directive of mod_qos has a comment or a translation" {
  import mod_qos <<<$'QS_VipUser\nQS_ClientEventBlockCount 10\nQS_SrvMinDataRate 120 1500\nQS_ErrorResponseCode 500\nQS_Unknown x\nQS_ErrorPage /x.html'
  is "$(grep -c '^# QS_' <<<"$output")" 6
  try "$CTL" import mod_qos - <<<'ServerName x'
  like "$status $output" '^1 .*has no directive of mod_qos'
}

@test "mod_qos: virtual hosts of one name become one section, and different numbers are named" {
  import mod_qos <<'EOT'
<VirtualHost *:80>
  ServerName shop.test:80
  QS_LocRequestLimit / 30
  QS_SrvMaxConn 800
</VirtualHost>
<VirtualHost *:443>
  ServerName https://Shop.test:443
  QS_LocRequestLimitDefault 12
  QS_LocRequestLimit / 100
  QS_SrvMaxConn 800
</VirtualHost>
EOT
  is "$(grep -c '^<VhostLimitSite' <<<"$output")" 1 "$output"
  is "$(grep '^    VhostLimitConcurrency' <<<"$output")" '    VhostLimitConcurrency 100'
  like "$output" '    # Conflict: VhostLimitConcurrency is 30 in <VirtualHost \*:80>, line 3, and 100 in <VirtualHost \*:443>, line 9\. A site has one value, here the larger one\.'
  is "$(grep -c 'QS_SrvMaxConn 800: limits connections of this virtual host' <<<"$output")" 1 "$output"
}

@test "mod_qos: lines that name other files are listed, and a ServerName with a variable makes no section" {
  import mod_qos <<'EOT'
QS_SrvMaxConn 800
IncludeOptional sites-enabled/*.conf
<VirtualHost *:80>
  ServerName ${SITE}.test
  QS_LocRequestLimit / 7
  Include other.conf
</VirtualHost>
EOT
  like "$output" $'# Not read: .*\n#   line 2: IncludeOptional sites-enabled/\*\.conf\n#   line 6: Include other\.conf\n'
  like "$output" 'QS_SrvMaxConn 800: MaxRequestWorkers'
  is "$(grep -v '^#' <<<"$output" | grep .)" 'VhostLimit On'
  try "$CTL" import mod_qos - <<<'Include a.conf'
  like "$status $output" '^1 .*has no directive of mod_qos\. 1 lines that name other files'
}

@test "Apache takes what is made of files of mod_qos and CloudLinux" {
  is "$(import_corpus mod_qos)" ''
  is "$(import_corpus lve)" ''
}
