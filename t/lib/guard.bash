# SPDX-License-Identifier: Apache-2.0
#
# Files and names for the guards, found in the tree and not listed by hand.

need_nm() { need_program nm; }

# Prints the words that the command prints. Fails when there are fewer than the
# number: a guard that finds nothing to check must not pass.
found() { # <at least> <what> <command>...
  local words
  words=$("${@:3}") || { fail "$2: the search ended with status $?"; return 1; }
  at_least "$(wc -w <<<"$words")" "$1" "$2 found" || return
  printf '%s\n' "$words"
}

# Prints all shell and bats files of the project, by extension or first line.
scripts() {
  local file
  while read -r file; do
    case $file in
      *.sh | *.bash | *.bats) echo "$file" ;;
      *) if LC_ALL=C grep -qaE '^#!.*\b(ba)?sh\b' <<<"$(head -c 40 "$file" | tr -d '\0' | sed -n 1p)"; then echo "$file"; fi ;;
    esac
  done < <(our_files)
}

our_files() {
  local place
  for place in ansible ctl findings fleet panels tools t conf packaging .ci autogen.sh; do
    [[ ! -e $TOP/$place ]] || find "$TOP/$place" -type f ! -path '*/.libs/*' ! -path '*/.deps/*' -size -1000k
  done
}

sources() {
  {
    our_files
    find "$TOP/mod_vhostlimit" -type f
    printf '%s\n' "$TOP/configure.ac" "$TOP/Makefile.am"
  } | grep -E '\.([ch]|sh|bash|bats|am|ac|conf|conf\.in|pl|lua|jq|php|tpl|pre|cil|md)$|/\.ci/run$' | sort
}

# The sources of libvlcore, which the unit tests link without httpd.
core_files() {
  sed -n '/^libvlcore_la_SOURCES/,/[^\\]$/p' "$TOP/mod_vhostlimit/Makefile.am" |
    grep -oE '[a-z]*/vl[a-z_0-9]*\.[ch]' | sed "s|^|$TOP/mod_vhostlimit/|" | sort
}

# Prints the directives of the loaded module, from httpd -L.
directives_of_module() {
  make_room
  configure_httpd 'VhostLimitCgroup off' >&2
  "$(httpd_program)" -L -f "$HTTPD_ROOT/httpd.conf" |
    sed -nE 's/^<?(VhostLimit[A-Za-z]*)>? \(mod_vhostlimit\.c\)$/\1/p' | sort -u
}

make_room() { mkdir -p "$HTTPD_ROOT"; }

core_library() { printf '%s\n' "${VL_BUILD_DIR:-$TOP}/mod_vhostlimit/.libs/libvlcore.a"; }

log_ids() { grep -ohE 'VLOGNO\([0-9]+\)' "$TOP"/mod_vhostlimit/{,*/}*.c | tr -cd '0-9\n' | sort; }
