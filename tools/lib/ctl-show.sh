# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The commands that show what the server says, and those that change it.

# Rows of cells set apart by \x1f: words left, numbers right, as wide as need be.
# Lines that are not cut into cells stay as they are.
# shellcheck disable=SC2016
table_program='
  while (<STDIN>) {
    chomp;
    my @cells = split /\x1f/, $_, -1;
    push @rows, \@cells;
    next if @cells < 2;
    for my $i (0 .. $#cells) {
      $width[$i] = length $cells[$i] if length $cells[$i] > ($width[$i] // 0);
      $word[$i] = 1 if $headed && $cells[$i] !~ /^[0-9.]*\*?$/;
    }
    $headed = 1;
  }
  my $form = join "  ", map { "%" . ($word[$_] ? "-" : "") . $width[$_] . "s" } 0 .. $#width;
  for (@rows) {
    my $line = @$_ < 2 ? "@$_" : sprintf $form, @$_;
    $line =~ s/ +$//;
    print "$line\n";
  }'
print_table() { perl -e "$table_program"; }

# Prints the document, or what the jq filter makes of it.
print_answer() { # <jq filter that makes text>
  if want_json; then print_json; else answer_jq -r "include \"ctl\"; $1"; fi
}

# The same for commands whose JSON is not the server's.
print_made() { # <jq file> <its filter that makes the document> <jq argument>...
  local made
  made=$(answer_jq "${@:3}" "include \"$1\"; $2")
  if want_json; then printf '%s\n' "$made"; else text_jq "include \"$1\"; text" <<<"$made"; fi
}

ctl_list() {
  ask status
  if want_json; then print_json; else answer_jq -r 'include "ctl"; table' | print_table; fi
}

ctl_show() { # <vhost>
  ask status "$1"
  print_answer details
}

ctl_set() { # <vhost> <key=value>...
  ask set "$@"
  print_answer limits
}

ctl_reset() { # <vhost> [key]...
  ask reset "$@"
  print_answer limits
}

ctl_explain() { # <vhost>
  local name
  ask status "$1"
  name=$(answer_jq '.vhosts[0].name')
  ask status
  # shellcheck disable=SC2016  # jq's own
  print_made ctl-explain 'made($name)' --argjson name "$name"
}

ctl_report() {
  ask status
  print_made ctl-report made
}

ctl_size() { # [seconds]
  local seconds=${1-10}
  [[ $seconds =~ ^[0-9]{1,4}$ ]] || misuse "size: '$seconds' is not a whole number of seconds up to 9999"
  ask_dir
  echo '{"uptime_s":0,"vhosts":[]}' >"$(kept before)"
  if ((seconds)); then
    ask status
    mv "$(kept answer)" "$(kept before)"
    interruptible_sleep "$seconds"
  fi
  ask status
  # shellcheck disable=SC2016  # jq's own
  print_made ctl-size 'made($before[0]; $seconds)' --slurpfile before "$(kept before)" --argjson seconds "$seconds"
}
