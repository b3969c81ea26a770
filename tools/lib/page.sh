# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Names and paths of the test bed's pages.

page_kinds=(static large php sleep burn2 burn20 lua2 lua20 hello-cgi hello insert
  wordpress mediawiki symfony)

page_known() { [[ " ${page_kinds[*]} " == *" $1 "* ]]; }

page_path() { # <page>
  case $1 in
    static) echo /index.html ;;
    large) echo /large.bin ;;
    php) echo /info.php ;;
    sleep) echo "/sleep.php?ms=50" ;;
    burn*) echo "/burn.php?ms=${1#burn}" ;;
    lua*) echo "/burn.lua?ms=${1#lua}" ;;
    hello-cgi) echo /hello.cgi ;;
    hello | insert) echo "/$1.php" ;;
    wordpress | symfony) echo "/$1/" ;;
    mediawiki) echo '/mediawiki/index.php?title=Main_Page' ;;
  esac
}
