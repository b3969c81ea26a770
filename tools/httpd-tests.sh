#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Summary: run httpd's own tests without and with mod_vhostlimit
# Usage:   httpd-tests.sh --source DIR [-m MPM] [-s SUITE] [--] [OPTION | FILE]...
#   --source DIR   a source tree of httpd 2.4: test/pyhttpd and test/modules are used. The
#                  installed Apache runs, with the module that is built in this tree
#   -m MPM         event, worker or prefork (event)
#   -s SUITE       folder of test/modules (http2), or with all modules of the installed Apache
#                  pytest_suite: test/pytest_suite of httpd 2.4.69 or newer; perl-framework:
#                  that folder of DIR, which is debian/ of Debian's source package apache2
#   OPTION         of pytest, or of t/TEST in perl-framework
#   -h, --help     this help
#   --version      the version
#   FILE           run this file of the suite only, for example test_105_timeout.py or
#                  t/modules/alias.t
#   Both runs happen at the same time (perl-framework: one after the other), each in
#   namespaces of its own. Tests that pass without the module and fail with it are printed.
#   Tests that fail in both are counted: the installed Apache may differ from the source tree.
# Exit:    0 no test fails only with the module; 1 some do, a run did not end, or most tests
#          fail without the module; 2 usage; 77 cannot run: not root, a program is missing, or
#          DIR is not such a tree

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/httpd.sh"

work=

remove_work() { rm -rf "$work"; }

# A copy of the tests, for one run.  httpd's configure writes config.ini otherwise.
prepare() { # <plain | vhostlimit>
  local dir=$work/$1 libexec
  if [[ $suite == perl-framework ]]; then
    cp -R "$source/perl-framework" "$dir"
    write_apxs "$dir"
    additions "$1" | grep LoadModule >>"$dir/httpd.conf" || :      # info.t compares what is loaded with this file
    additions "$1" | sed /LoadModule/d >>"$dir/t/conf/extra.conf.in"
    echo 'TypesConfig /etc/mime.types' >>"$dir/httpd.conf"
    sed '/^::1/s/[[:space:]]localhost\b//g' /etc/hosts >"$dir/hosts"      # it expects 127.0.0.1 alone
    chmod 755 "$work" "$dir/apxs"
    chown -R "$(httpd_user):" "$dir"
    return
  fi
  if [[ $suite == pytest_suite ]]; then
    mkdir -p "$dir"
    cp -R "$source/test/pytest_suite" "$dir/test"
    additions "$1" >>"$dir/test/t/conf/extra.conf.in"
    write_apxs "$dir"
    chmod 755 "$work" "$dir"
    chown -R "$(httpd_user):" "$dir"
    find "$dir" -type d -exec chmod g+s {} +       # the suite writes programs for itself and their group
    return
  fi
  libexec=$(apxs -q LIBEXECDIR)
  mkdir -p "$dir/test/modules"
  cp -R "$source/test/pyhttpd" "$source/test/conftest.py" "$dir/test/"
  cp -R "$source/test/modules/$suite" "$dir/test/modules/"
  mkdir "$dir/test/clients"
  printf 'all:\n' >"$dir/test/clients/Makefile"        # tests of WebSockets are skipped without its client
  printf '#!/bin/sh\nexec %q "$@"\n' "$(httpd_binary)" >"$dir/apachectl"
  chmod 755 "$work" "$dir" "$dir/apachectl"
  cat >"$dir/test/pyhttpd/config.ini" <<END
[global]
curl_bin = curl
nghttp = nghttp
h2load = h2load
prefix = $(apxs -q PREFIX)
bindir = $(dirname "$(command -v apxs)")
sbindir = $(apxs -q SBINDIR)
libexecdir = $libexec
apxs = $(command -v apxs)
apachectl = $dir/apachectl
[httpd]
version = $("$(httpd_binary)" -v | sed -n 's,.*Apache/\([0-9.]*\).*,\1,p')
name = $(apxs -q PROGNAME)
dso_modules = $(cd "$libexec" && printf '%s\n' mod_*.so | sed 's/^mod_//; s/\.so$//' | grep -v '^mpm_' | xargs)
mpm_modules = mpm_event mpm_worker mpm_prefork
[test]
gen_dir = $dir/gen
http_port = 5002
https_port = 5001
proxy_port = 5003
http_port2 = 5004
ws_port = 5100
http_tld = tests.httpd.apache.org
test_dir = $dir/test
test_src_dir = $dir/test
END
  additions "$1" >"$work/$1.conf"
  sed -i "/Include \"conf\/modules.conf\"/r $work/$1.conf" "$dir/test/pyhttpd/conf/httpd.conf.template"
}

# pytest_suite loads what the httpd.conf in apxs's SYSCONFDIR loads, and runs apxs with perl.
# mod_example_ipc names a file in /tmp after its process, and both runs have the same process IDs.
write_apxs() { # <folder>
  local folder=$1 libexec name file other=cgi
  [[ $mpm != prefork ]] || other=cgid
  libexec=$(apxs -q LIBEXECDIR)
  for file in $(dpkg -L apache2-bin 2>/dev/null | grep "^$libexec/mod_" || printf '%s\n' "$libexec"/mod_*.so); do   # Apache's own
    name=${file##*/mod_}
    case ${name%.so} in
      mpm_*) [[ $name == mpm_$mpm.so ]] || continue ;;
      "$other" | vhostlimit | example_* | heartbeat | heartmonitor) continue ;;
    esac
    printf 'LoadModule %s_module %s\n' "${name%.so}" "$file"
  done >"$folder/httpd.conf"
  {
    printf '#!/usr/bin/perl\nif ("@ARGV" eq "-q SYSCONFDIR") { print "%s\\n"; exit }\n' "$folder"
    printf 'exec "%s", @ARGV;\n' "$(command -v apxs)"
  } >"$folder/apxs"
}

additions() { # <plain | vhostlimit>: lines for httpd.conf
  local user
  user=$(httpd_user)
  printf 'User %s\nGroup %s\n' "$user" "$(id -gn "$user")"
  [[ $1 == plain ]] ||
    printf '%s\n' "LoadModule vhostlimit_module \"$module\"" 'VhostLimit On' 'VhostLimitCgroup off'
}

run_tests() { # <plain | vhostlimit> <argument of pytest or t/TEST>...
  local dir=$work/$1/test options=()
  [[ $suite != perl-framework ]] || { run_perl "$@"; return; }
  [[ $suite != pytest_suite ]] || options=("--apxs=$work/$1/apxs" "--httpd=$(httpd_binary)")
  # shellcheck disable=SC2016  # for the inner shell
  unshare --net --ipc --pid --mount --fork --mount-proc --kill-child bash -c '
    mount -t tmpfs tmpfs /run && mkdir -p /run/apache2 /run/httpd /run/lock &&
    ip link set lo up && cd "$1" && MPM=$2 PYTHONPATH=. exec "$3" -m pytest -q -rA -p no:cacheprovider "${@:4}"' \
    - "$dir" "$mpm" "$python" "${options[@]}" "${@:2}" >"$work/$1.log" 2>&1
}

# As an ordinary user: as root it looks for one.
run_perl() { # <plain | vhostlimit> <argument of t/TEST>...
  # shellcheck disable=SC2016  # for the inner shell
  unshare --net --ipc --pid --mount --fork --mount-proc --kill-child bash -c '
    cd "$1" && mount --bind hosts /etc/hosts && ip link set lo up && export HOME=$1 LC_ALL=C &&
    user=(setpriv --reuid "$2" --regid "$2" --init-groups) &&
    "${user[@]}" perl Makefile.PL -apxs "$1/apxs" -httpd_conf "$1/httpd.conf" && exec "${user[@]}" t/TEST -verbose "${@:3}"' \
    - "$work/$1" "$(httpd_user)" "${@:2}" >"$work/$1.log" 2>&1
}

# Of perl-framework, FILE:NUMBER for each test.
results() { # <plain | vhostlimit>: "PASSED name" and the like, a line each
  [[ $suite != perl-framework ]] || {
    awk '/^t\/[^ ]+\.t \.+/ { file = $1 } /^ok [0-9]/ { print "PASSED " file ":" $2 } /^not ok [0-9]/ { print "FAILED " file ":" $3 }' "$work/$1.log" | sort -u
    return
  }
  sed -nE 's/^(PASSED|FAILED|ERROR) ([^ ]+).*$/\1 \2/p' "$work/$1.log" | sort -u
}

passed() { results "$1" | sed -n 's/^PASSED //p' | sort; }                # <run>
not_passed() { results "$1" | sed -nE 's/^(FAILED|ERROR) //p' | sort -u; }  # <run>

report() {
  local only name
  only=$(comm -12 <(passed plain) <(not_passed vhostlimit))
  printf '%s, %s: plain %d passed, %d failed; with the module %d passed, %d failed\n' "$suite" "$mpm" \
    "$(passed plain | wc -l)" "$(not_passed plain | wc -l)" "$(passed vhostlimit | wc -l)" "$(not_passed vhostlimit | wc -l)"
  for name in $only; do printf 'only with the module: %s\n' "$name"; done
  (($(passed plain | wc -l) > $(not_passed plain | wc -l))) ||
    { tail -n 20 "$work/plain.log" >&2; die 'most tests fail without the module, so this says nothing about it'; }
  [[ -z $only ]]
}

check_pytest() {
  local needs='pytest, httpx'
  python=$(command -v /usr/bin/python3 || command -v python3) || cannot 'python3 is not installed'
  tests=tests
  if [[ $suite != pytest_suite ]]; then
    need curl nghttp h2load make
    tests=modules/$suite needs='pytest, cryptography, packaging, filelock'
  fi
  "$python" -c "import $needs" 2>/dev/null || cannot "Python packages are missing: $needs (Debian: python3-NAME)"
  [[ -d $source/test/pytest_suite/$tests || -d $source/test/pyhttpd && -d $source/test/$tests ]] ||
    cannot "$source has no test/pyhttpd or no test/$tests: not a source tree of httpd 2.4"
}

check_perl() {
  need perl make gcc setpriv
  perl -MLWP -MHTTP::DAV -MAnyEvent -MDateTime -MFCGI -MNet::SSLeay -MProtocol::HTTP2 -e 1 2>/dev/null ||
    cannot 'Perl packages are missing (Debian: libwww-perl libhttp-dav-perl libanyevent-perl libdatetime-perl libfcgi-perl libnet-ssleay-perl libprotocol-http2-perl)'
  [[ -e $source/perl-framework/Makefile.PL ]] || cannot "$source has no perl-framework: not debian/ of the source package apache2"
}

main() {
  local source mpm suite module python tests='' files=() run pids=()
  parse_options m:s: source: "$@"
  set -- "${words[@]}"
  source=${given[--source]-} mpm=${given[-m]-event} suite=${given[-s]-http2}
  [[ -n $source ]] || misuse '--source is missing: the folder of a source tree of httpd 2.4'
  [[ $mpm =~ ^(event|worker|prefork)$ ]] || misuse "-m: $mpm is not event, worker or prefork"
  need_root
  need apxs unshare ip
  if [[ $suite == perl-framework ]]; then check_perl; else check_pytest; fi
  module=$(in_tree mod_vhostlimit/.libs/mod_vhostlimit.so)
  [[ -e $module ]] || cannot 'the module is not built: run ./autogen.sh && ./configure && make'
  work=$(mktemp -d)
  on_exit remove_work
  files=("${@/#test_/$tests/test_}")
  (($# > 0)) || [[ -z $tests ]] || files=("$tests")
  for run in plain vhostlimit; do
    prepare "$run"
    run_tests "$run" "${files[@]}" &
    pids+=($!)
    [[ $suite != perl-framework ]] || wait "$!" || true      # both would use the same socket in /tmp
  done
  for run in "${pids[@]}"; do wait "$run" || true; done
  for run in plain vhostlimit; do
    grep -qE '^([0-9]+ (passed|failed)|Files=[0-9])' "$work/$run.log" ||
      { tail -n 20 "$work/$run.log" >&2; die "the run of $run did not end"; }
  done
  report
}

main "$@"
