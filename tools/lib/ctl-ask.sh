# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Talks to the server over its control socket: a line of words with tabs between
# them, and a JSON document back.  bash knows no such sockets, perl does.

declare -A ctl=([socket]='' [json]=0 [dir]='' [pid]=0)
ctl_lib=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

ask_places=(/run/apache2*/vhostlimit.sock /run/httpd*/vhostlimit.sock
  /usr/local/apache2/logs/vhostlimit.sock)

unavailable() { say "$*"; exit 69; }    # <sentence>: no server answers

ask_socket() { # prints the server's socket
  local found=() place
  if [[ -n ${ctl[socket]} ]]; then
    printf '%s\n' "${ctl[socket]}"
    return
  fi
  for place in "${ask_places[@]}"; do
    [[ ! -S $place ]] || found+=("$place")
  done
  ((${#found[@]} > 0)) ||
    unavailable "no control socket in the usual places: no Apache with mod_vhostlimit runs, or its DefaultRuntimeDir is elsewhere (name the socket with -s SOCKET)"
  ((${#found[@]} == 1)) || unavailable "several servers run here; choose one with -s: ${found[*]}"
  printf '%s\n' "${found[0]}"
}

# perl's own words: connects, prints the parent's pid, and keeps the document.  A
# server that begins a restart may hang up; no command does harm twice.
# shellcheck disable=SC2016
ask_program='
  use Socket;
  my ($path, $line, $file) = @ARGV;
  $SIG{ALRM} = sub { die "no answer within 15 s\n" };
  $SIG{PIPE} = "IGNORE";
  alarm 15;
  length($path) < 108 or die "its name is too long\n";
  for (1 .. 5) {
    socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die "$!\n";
    connect($s, pack_sockaddr_un($path)) or die "$!\n";
    my ($pid) = unpack("i", getsockopt($s, SOL_SOCKET, SO_PEERCRED) || "");
    my $all = "";
    syswrite($s, "$line\n");
    1 while sysread($s, $all, 65536, length($all));
    if ($all =~ /\}\n\z/) {
      open(my $out, ">", $file) or die "$file: $!\n";
      print $out $all;
      close($out) or die "$file: $!\n";
      print $pid;
      exit;
    }
    select(undef, undef, undef, 0.2);
  }
  die "server closed the connection; are you root?\n";'

# Documents are in files: of 10 000 vhosts they are long words for bash.
ask_dir() {
  [[ -z ${ctl[dir]} ]] || return 0
  ctl[dir]=$(mktemp -d)
  on_exit remove_ask_dir
}
remove_ask_dir() { rm -rf "${ctl[dir]}"; }
kept()           { printf '%s\n' "${ctl[dir]}/$1"; }   # <name>: a file of this program's

ask_failed() { # <socket> <why>
  if ((EUID != 0)) && [[ $2 == *'Permission denied'* || $2 == *'are you root?'* ]]; then
    cannot "no answer from $1: $2 (this needs root)"
  fi
  unavailable "no answer from $1: $2"
}

# Keeps the answer; ends the program when there is none or it is no.
ask() { # <word>...
  local line socket said
  [[ $* != *[$'\t\n\r']* ]] || misuse "a name or value with a tab or a line's end in it"
  line=$(IFS=$'\t'; printf '%s' "$*")
  socket=$(ask_socket) || exit
  ask_dir
  said=$(perl -e "$ask_program" "$socket" "$line" "$(kept answer)" 2>&1) || ask_failed "$socket" "$said"
  ctl[pid]=$said
  [[ $(head -c 9 "$(kept answer)") != '{"error":' ]] || die "$(answer_jq -r '.error | gsub("[^ -~]"; "?")')"
}

answer_jq() { # <jq argument>...: of the last answer
  jq -L "$ctl_lib" "$@" "$(kept answer)"
}

answer_server()   { printf '%s\n' "${ctl[pid]}"; }     # the parent's pid
want_json()       { ((ctl[json])); }
print_json()      { cat "$(kept answer)"; }

text_jq() { # <jq argument>...: of what comes in
  jq -r -L "$ctl_lib" "$@"
}
