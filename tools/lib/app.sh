# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Real applications from the distribution's packages, copied to a folder on the measured
# file system and set up as their installers would.

app_kinds=(wordpress mediawiki symfony)

app_known() { [[ " ${app_kinds[*]} " == *" $1 "* ]]; }

# Creates a folder below the one given, and lists it for bed_down, which removes it.
app_root() { # <folder>
  local root
  root=$(mktemp -d "$1/$bed_name.XXXXXX") || cannot "$1 is not a writable folder"
  printf '%s\n' "$root" >>"$bed_dir/app-roots"
  chmod 755 "$root"
  printf '%s\n' "$root"
}

app_remove() { # removes all folders of this bed
  local root
  [[ -r $bed_dir/app-roots ]] || return 0
  while read -r root; do
    [[ $root != */"$bed_name".?????? ]] || rm -rf "$root"
  done <"$bed_dir/app-roots"
}

app_install() { # <application> <root> <number>: what tells databases apart
  say "setting up $1 in $2"
  "app_$1" "$2/$1" "$1_$3"
}

# Copies the targets of links too, so that everything is on that file system.  tar ends
# with 1 if a link has no target.
app_copy() { # <from> <to>
  mkdir -p "$2"
  { tar -C "$1" --ignore-failed-read -hcf - . 2>/dev/null || (($? == 1)); } | tar -C "$2" -xf - ||
    die "$1 could not be copied to $2"
}

app_php() { # <argument>...: as the web server's user, in the bed
  local user
  user=$(httpd_user)
  (server_exec setpriv --reuid "$user" --regid "$user" --clear-groups php -d error_reporting=0 "$@") \
    </dev/null >"$bed_dir/app.out" 2>&1 || die "the application could not be set up: $(tail -n 3 "$bed_dir/app.out")"
}

app_wordpress() { # <folder> <database>
  app_copy /usr/share/wordpress "$1"
  mkdir -p "$1/wp-content"
  app_copy /var/lib/wordpress/wp-content "$1/wp-content"
  rm -f "$1/wp-config.php"
  template_render "$(in_tree conf/testbed/apps/wp-config.php.in)" "$1/wp-config.php" \
    DATABASE="$2" SOCKET="$(mariadb_socket)"
  mariadb_database "$2"
  app_php "$(in_tree conf/testbed/apps/wp-install.php)" "$1"
}

app_mediawiki() { # <folder> <database>
  local user
  user=$(httpd_user)
  app_copy /usr/share/mediawiki "$1"
  rm -f "$1/LocalSettings.php"
  mkdir -p "$1/settings"
  chown "$user" "$1/settings"
  mariadb_database "$2"
  app_php "$1/maintenance/install.php" --dbtype mysql --dbserver "localhost:$(mariadb_socket)" --dbname "$2" \
    --dbuser bed --dbpass bed --server http://site1.test --scriptpath /mediawiki --confpath "$1/settings" \
    --pass 'only-on-the-bed' 'Test bed' Bed
  mv "$1/settings/LocalSettings.php" "$1/LocalSettings.php"
}

app_symfony() { # <folder> <database>
  local user
  user=$(httpd_user)
  mkdir -p "$1"
  cp -R "$(in_tree conf/testbed/apps/symfony)/." "$1"
  app_copy /usr/share/php "$1/php"
  mkdir -p "$1/var"
  chown "$user" "$1/var"
}

# siege would count a redirection, or a page with an error message, as a transaction.
app_check() { # <page>: nothing is asked of the other pages
  local words
  case $1 in
    wordpress) words='Post 10' ;;
    mediawiki) words='MediaWiki has been installed' ;;
    symfony) words='<td>10000</td>' ;;
    *) return 0 ;;
  esac
  (bed_curl 1 -m 60 "http://site1.test$(page_path "$1")") >"$bed_dir/app.out" 2>&1 || true
  grep -qF "$words" "$bed_dir/app.out" || die "$1 does not work: $(head -c 300 "$bed_dir/app.out")"
}

app_lines() { # <root>: what Apache reads; nothing where there is none
  local app
  [[ -n $1 ]] || return 0
  printf '<Directory "%s">\n%s\n</Directory>\n' "$1" "$(bed_allowed apache)"
  for app in "${app_kinds[@]}"; do printf 'Alias /%s "%s/%s"\n' "$app" "$1" "$app"; done
}
