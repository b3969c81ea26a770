# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The functions that describe a test.  test-NAME.sh has one function, describe_NAME, which
# calls them for the loads, pages, targets and rows of the test.  A new file is a new test.

# The description that was read, changed by the functions of this file only.  Keys of a
# scene are lines, pools, cold, vhosts, mpm, front, appserver, tls, keepalive, quota, fleet and
# store and the name of a site with :SCENE.  tls:-, keepalive:- and pools:- hold for all scenes.
declare -A test=()
declare -A test_option=()       # see test_read
test_scenes=() test_loads=() test_rows=()
test_scene_now=-                # the name of the only scene of most tests
test_by_now=-                   # the generator of the next loads; -: the command line's

test_files() { # NAME<TAB>file
  local file name
  for file in "${BASH_SOURCE[0]%/*}"/test-*.sh; do
    name=${file##*/test-}
    printf '%s\t%s\n' "${name%.sh}" "$file"
  done
}

test_list() { # NAME<TAB>summary
  local name file
  while IFS=$'\t' read -r name file; do
    (test_read "$name" && printf '%s\t%s\n' "$name" "${test[summary]}")
  done < <(test_files)
}

test_known() { grep -qxF -- "$1" <<<"$(test_files | cut -f 1)"; }

# Reads the description.  Some depend on options of the command line: keepalive (0 or 1) and
# length (quick, default or full).
test_read() { # <name> [<option=value>]...
  local pair
  test_option=()
  for pair in "${@:2}"; do test_option[${pair%%=*}]=${pair#*=}; done
  test_with "$1"
  test=([name]=$1 [targets]='plain,vhostlimit' [pages]=static [samples]=2)
  "describe_$1"
  ((${#test_scenes[@]})) || test_scenes=(-)
}

# --- the words ------------------------------------------------------------

# Describes the same as another test.  Later calls replace parts of it.
test_as() { # <test>
  test_with "$1"
  "describe_$1"
}

# For the functions of another test's file.
test_with() { # <test>
  # shellcheck disable=SC1090  # one of ours
  . "${BASH_SOURCE[0]%/*}/test-$1.sh"
}

test_summary()      { test[summary]=$1; }               # <line for -l>
test_targets()      { test[targets]=$1; }               # <target,...>
test_rivals()       { test[rivals]=$1; }                # <target,...>: what it may be run on beside the module
test_pages()        { test[pages]=$1; }                 # <page,...>; "mixed": the loads name theirs
test_keepalive()    { test[keepalive:$test_scene_now]=1; }      # without -k too; in a scene: for it only
test_fpm_children() { test[children]=$1; }              # <number>
# <shared | master | own> PHP-FPM: a pool for each site under one master, or each site's own
# PHP-FPM in its cgroup.
test_pools()        { test[pools:$test_scene_now]=$1; }
test_repeat()       { test[repeat]=$1; }                # <repetitions> without --quick
test_sites()        { test[sites]=$1; }                 # <2 | 3 | 4>
test_modules()      { test[modules]=$1; }             # <name of a module of Apache's, without mod_>
test_samples()      { test[samples]=$1; }               # <a second> of the status page; 0: none
test_site()         { test[$1:$test_scene_now]+=$2$'\n'; }      # <site> <line for the module in its vhost>

test_idle()         { test[idle]=yes; }                 # the server's CPU may be idle in a run
test_tls()          { test[tls:$test_scene_now]=${1-on}; }      # [both]: the sites over TLS and HTTP/2, or over http too; as above
test_local()        { test[local]=$1; }                 # <reason>: it cannot run with --clients

# Begins a scene.  A test without this call has one scene.
test_scene() { # <name>
  test_scene_now=$1
  test_scenes+=("$1")
}

test_line()   { test[lines:$test_scene_now]+=$1$'\n'; } # <line for the module at server level>
test_vhosts() { test[vhosts:$test_scene_now]=$1; }      # <number> in all, instead of the sites only
test_mpm()    { test[mpm:$test_scene_now]=$1; }         # instead of event
test_front()  { test[front:$test_scene_now]=$1; }       # <varnish>: see bed-front.sh
test_appserver() { test[appserver:$test_scene_now]=$1; }        # <kind>: what serves pages of site 1 besides PHP-FPM, see appserver.sh

# Pages of the warm-up would still run in the measured time.
test_cold()   { test[cold:$test_scene_now]=1; }         # no warm-up

# The generator of the next loads, instead of --load.  For h2load the number of streams on
# each connection; for crowd its options, see crowd.sh.
test_by() { test_by_now=$1${2+:$2}; }                   # <generator> [streams | option[:option]...]

# Servers of a fleet instead of one; client N loads server N.  Their samples replace those of
# test_samples.
test_fleet() { # <number> [<a second> of each server's status page]
  test[fleet]=$1 test[fleet_samples]=${2-10}
  test_samples 0
  test_local 'each of them is wired to a server of its own'
}
test_quota()  { test[quota:$test_scene_now]=$1; }       # <percent of one CPU> for each server of a fleet
test_daemon() { test[fleet:$test_scene_now]+=$1$'\n'; } # <line of the configuration of vhostlimit-fleet>
test_store_gone() { test[store:$test_scene_now]="$1 $2"; }      # <from> <to>: percent of the run in which there is no store

# From and to are percent of the run's length.
test_load() { # <role> <client> <site> <users> [from to [page]]
  test_loads+=("$test_scene_now $1 $2 $3 $4 ${5-0} ${6-100} ${7--} $test_by_now")
}

# Two sites with 100 users each, one of them on a page that costs more.
test_cheap_and_dear() { # <page> <page>
  test_targets vhostlimit
  test_pages mixed
  test_load cheap 1 site1 100 0 100 "$1"
  test_load dear 2 site2 100 0 100 "$2"
}

test_is_kept()      { [[ ${test_option[keepalive]-0} == 1 ]]; } # does the command line say -k?
test_is_full()      { [[ ${test_option[length]-} == full ]]; }
test_seconds()      { test[full]=$1 test[default]=${2-} test[quick]=${3-}; }    # <--full> [<default> <--quick>]: of a run

# The capacity for rate=N% is found before all runs, by plain Apache: in the first scene, or
# in one that is begun by this call and is not measured otherwise.
test_capacity() { # [scene]
  test[capacity]=${1-first}
  [[ -z ${1-} ]] || test_scene_now=$1
}

# Where: all, or PAGE, or PAGE:close, PAGE:keepalive, each with or without @TARGET.
# Bar and goal: ">= 0.9", "> 1", "<= 5 %", "<= 1 s"; "= 0" holds only if it does in
# every repetition; or nothing.  The value is an expression in functions of rows.jq.
test_row() { # <where> <name> <bar> <goal> <value>
  test_rows+=("$1"$'\x1f'"$2"$'\x1f'"$3"$'\x1f'"$4"$'\x1f'"${test[judged]-median}"$'\x1f'"$5")
}

# From here on rows are shown as a table of the targets, and only those with a bar among
# the other rows: the median and range of the repetitions, or their mean and its
# confidence interval.
test_side_by_side() { test[judged]=beside; }
test_intervals()    { test[judged]=interval; }

# A row of each of the test's targets, for such a table.  Only the module is judged.
test_row_each() { # <name> <bar of the module> <value>
  local target bar
  for target in ${test[targets]//,/ }; do
    bar=''
    [[ $target != vhostlimit ]] || bar=$2
    test_row "all@$target" "$1" "$bar" '' "$3"
  done
}

# Rows of the roles "victim" and "noisy" compared with plain Apache in the same
# repetition.  The victim's rate is divided by half of plain Apache's total, which is its
# fair share.  The scene defaults to the only one.
test_row_of() { # <scene> <where> <name> <bar> <goal> <value>: the name has the scene, if there are several
  local prefix=''
  [[ $1 == - ]] || prefix="$1: "
  test_row "$2" "$prefix$3" "${@:4}"
}

test_row_rates() { # <where> <bar> <goal> [scene [target]]
  local scene=${4--} target=${5-plain} best=''
  [[ $target == plain ]] || best=', at its best number of threads'
  test_row_of "$scene" "$1" "victim's rate / half of plain Apache's total$best" "$2" "$3" \
    "ratio(this(\"$scene\") | site(\"victim\").rate; with(\"$target\"; \"$scene\") | .total.rate / 2)"
  test_row_of "$scene" "$1" "total / plain Apache's total$best" "$2" "$3" \
    "ratio(this(\"$scene\") | .total.rate; with(\"$target\"; \"$scene\") | .total.rate)"
}

test_row_share() { # <where> <least> <most> <goal: least> <goal: most> [scene]
  local scene=${6--} share
  share="this(\"$scene\") | site(\"victim\").share"
  test_row_of "$scene" "$1" "victim's share of the responses" ">= $2" ">= $4" "$share"
  test_row_of "$scene" "$1" "victim's share of the responses, at most" "<= $3" "<= $5" "$share"
}

test_row_failures() { # <where> [scene]
  test_row_of "${2--}" "$1" 'failures of either site' '= 0' '= 0' "this(\"${2--}\") | .total.failures"
}

# The victim's p99 compared with its mean, and with its p99 on plain Apache.
test_row_p99() { # <where> [scene]
  local scene=${2--}
  test_row_of "$scene" "$1" "victim's p99 / its mean" '<= 6' '<= 3' \
    "ratio(this(\"$scene\") | site(\"victim\").p99_s; this(\"$scene\") | site(\"victim\").mean_s)"
  test_row_of "$scene" "$1" "victim's p99 / its p99 on plain Apache" '<= 1' '<= 0.3' \
    "ratio(this(\"$scene\") | site(\"victim\").p99_s; plain(\"$scene\") | site(\"victim\").p99_s)"
}

# A role's figure beside that on plain Apache, and its failures on both.
test_row_plain() { # <where> <role> <whose, such as "victim's"> <rate | p99> [scene [bar goal]]
  local scene=${5--} figure=$4
  [[ $4 == rate ]] || figure+=_s
  test_row_of "$scene" "$1" "$3 $4 / that on plain Apache" "${6-}" "${7-}" \
    "ratio(this(\"$scene\") | site(\"$2\").$figure; plain(\"$scene\") | site(\"$2\").$figure)"
}

test_row_plain_failures() { # <where> <role> <whose> [scene]
  local scene=${4--}
  test_row_of "$scene" "$1" "$3 failures" '= 0' '= 0' "this(\"$scene\") | site(\"$2\").failures"
  test_row_of "$scene" "$1" "$3 failures on plain Apache" '' '' "plain(\"$scene\") | site(\"$2\").failures"
}

# Sites beside plain Apache, and the server.  Sites before "--" want no more than their share,
# or have no more on plain Apache: they must not be worse off.  The others may lose what is
# above their share, and the share of one of two sites is half of the server.  The total has no
# bar, because pages of different sites cost differently.
test_rows_beside_plain() { # <scene> <role>... [-- <role>...]
  local role rate=('>= 0.95' '>= 1.0') p99=('<= 1.2' '<= 1.0')
  for role in "${@:2}"; do
    [[ $role != -- ]] || { rate=('>= 0.5' '') p99=('' ''); continue; }
    test_row_plain all "$role" "$role site's" rate "$1" "${rate[@]}"
    test_row_plain all "$role" "$role site's" p99 "$1" "${p99[@]}"
    test_row_plain_failures all "$role" "$role site's" "$1"
  done
  test_row_total all '' '' "$1"
}

test_row_total() { # <where> <bar> <goal> [scene]
  local scene=${4--}
  test_row_of "$scene" "$1" "total / plain Apache's total" "$2" "$3" \
    "ratio(this(\"$scene\") | .total.rate; plain(\"$scene\") | .total.rate)"
}

# --- asked by others ------------------------------------------------------

test_loads_of() { # <scene>: role client site users from to page by
  printf '%s\n' "${test_loads[@]}" | sed -n "s/^$1 //p" | sort -s -n -k5,5
}

test_lines() { # <scene>: the module's, those inside a vhost marked
  local site lines
  printf '%s' "${test[lines:$1]-}"
  for site in site1 site2 site3 site4; do
    lines=$(test_site_lines "$site" "$1")
    [[ -z $lines ]] || printf '%s\n' "$site: ${lines//$'\n'/$'\n'"$site: "}"
  done
}

test_site_lines() { # <site> <scene>: the module's
  printf '%s' "${test[$1:-]-}"
  [[ $2 == - ]] || printf '%s' "${test[$1:$2]-}"
}

test_packages() { # roles in packages.sh of what the bed needs for it
  local key
  [[ " ${!test[*]}" != *" tls:"* ]] || echo openssl
  for key in "${!test[@]}"; do
    case $key:${test[$key]} in front:*) echo varnish ;; appserver:*) appserver_packages "${test[$key]}" ;; esac
  done
  [[ -z ${test[fleet]-} ]] || printf '%s\n' hiredis openssl-dev jansson expat redis
}

test_takes_target() { # <target>
  [[ $1 == plain* || ,${test[targets]},${test[rivals]-}, == *,$1,* ]] || target_is_module "$1"
}

test_takes_load() { grep -qx -- - < <(test_generators -); }     # does --load apply to any of the loads?
test_made_with()  { test_generators '' | sed '/^$/d' | paste -sd ' '; }     # without those of --load

test_generators() { # <the command line's>: those that make loads
  printf '%s\n' "${test_loads[@]}" | awk -v own="$1" '{ sub(":.*", "", $9); print $9 == "-" ? own : $9 }' | sort -u
}

# File descriptors that one process needs, of a generator or Apache. The event MPM spreads
# connections over at least two child processes; a front, or prefork's acceptor, has all
# of them.
test_files_most() {
  local parts=2
  [[ " ${!test[*]}" != *" front:"* && " ${!test[*]}" != *" mpm:"* ]] || parts=1
  printf '%s\n' "${test_loads[@]}" | awk -v parts="$parts" '
    { sum[$1] += $5; if ($5 > most) most = $5; if (sum[$1] / parts > most) most = sum[$1] / parts }
    END { print int(most) + 200 }'
}
