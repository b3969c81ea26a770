# SPDX-License-Identifier: Apache-2.0
#
# Sandboxes: requirements, programs of sites, and what is left of namespaces.
#
# needs: cc seccomp util pgrep

landlock_abi()  { perl -e 'print syscall(444, 0, 0, 1)'; }
need_landlock() { (($(landlock_abi) > 0)) || { echo "no Landlock"; return 1; }; }
need_cc()       { need_program gcc; }
need_userns()   { unshare --user --mount --pid --ipc --fork true 2>/dev/null || { echo "no user namespaces for root"; return 1; }; }
need_seccomp()  { grep -qF seccomp_export_bpf "$(vl_module)" || { echo "built without libseccomp"; return 1; }; }

sandbox_compile() { # <name> <source> [option]...   into $BATS_FILE_TMPDIR
  local name=$1 source=$2
  shift 2
  [[ -e $BATS_FILE_TMPDIR/$name ]] || gcc -O2 -o "$BATS_FILE_TMPDIR/$name" "$source" "$@"
}

# A shell script as a program of the site, in its own DocumentRoot: its lines are on
# standard input.
site_program() { # <vhost> <name>
  local file=$HTTPD_ROOT/htdocs/$1/$2
  { printf '#!/bin/sh\nprintf "Content-Type: text/plain\\r\\n\\r\\n"\nexec 2>&1\n'; cat; } >"$file"
  chmod 755 "$file"
}

# Prints what a program of the site writes.
run_program() { get "$1" "/$2" >/dev/null; answer_body; }  # <vhost> <name and query>

# shellcheck disable=SC2034  # for the test files
# Lines for start_httpd that let scripts run in DocumentRoots.
PROGRAMS='<FilesMatch "\.(cgi|sh)$">
  SetHandler cgi-script
  Options +ExecCGI
</FilesMatch>'

# PIDs of the keepers: the processes that keep namespaces.
keepers() { pgrep -f '^sh -c read -r end # sandbox of ' || :; }
keepers_are() { [[ $(keepers | wc -l) == "$1" ]]; }  # <number>
