# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Names and paths of the test bed's pages.

page_kinds=(static php sleep wait100 wait200 wait1000 burn1 burn2 burn10 burn20 burn3000 call1 call2 call1-static app20 sql2 sql20 sql200 sql20kept sql2kept sqlwait100 sqlmany13 wordpress poll socket events throttled lua2 lua20 hello-cgi)

page_known() { [[ " ${page_kinds[*]} " == *" $1 "* ]]; }

page_path() { # <page>
  local page
  case $1 in
    static) echo /index.html ;;
    php) echo /info.php ;;
    sleep) echo "/sleep.php?ms=50" ;;
    wait*) echo "/burn.php?sleep=${1#wait}&ms=3" ;;
    burn*) echo "/burn.php?ms=${1#burn}" ;;
    call*-static) page=${1#call}; echo "/call.php?site=site${page%-static}&page=static" ;;
    call*) echo "/call.php?site=site${1#call}" ;;
    app*) echo "/app?ms=${1#app}" ;;
    sql*kept) page=${1#sql}; echo "/sql.php?ms=${page%kept}&keep=1" ;;
    sqlwait*) echo "/sql.php?sleep=${1#sqlwait}&keep=1" ;;
    sqlmany*) echo "/sql.php?many=${1#sqlmany}" ;;
    wordpress) echo /wordpress/ ;;
    sql*) echo "/sql.php?ms=${1#sql}" ;;
    poll) echo "/sleep.php?ms=5000" ;;
    socket | events | throttled) echo "/$1" ;;
    lua*) echo "/burn.lua?ms=${1#lua}" ;;
    hello-cgi) echo /hello.cgi ;;
  esac
}
