# SPDX-License-Identifier: Apache-2.0
#
# A headless Chromium, controlled through its debugging pipe: JSON messages of the
# DevTools protocol, each ended by a zero byte. Its events (console, errors, security)
# are kept in the file `events` of $browser_folder. A browser that setup_file starts serves all tests
# of the file.

need_chromium() { need_program chromium; }

start_browser() { # [<option of Chromium>]...
  local dir=${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}/browser
  export browser_folder=$dir browser_in browser_out browser_pid
  mkdir -p "$dir"
  mkfifo "$dir/in" "$dir/out"
  exec {browser_in}<>"$dir/in" {browser_out}<>"$dir/out"
  # shellcheck disable=SC2016  # $0 and $@ are the inner shell's
  HOME=$dir detached bash -c 'exec timeout 600 "$@" 3<"$0/in" 4>"$0/out"' "$dir" chromium --headless --no-sandbox \
    --disable-gpu --window-size=1600,1000 --no-first-run --disable-crash-reporter --disable-background-networking --disable-component-update \
    --user-data-dir="$dir/profile" --host-resolver-rules='MAP * 127.0.0.1' --remote-debugging-pipe "$@" >"$dir/log" 2>&1 &
  browser_pid=$!
}

end_browser() {
  [[ -n ${browser_pid:-} ]] || return 0
  printf '{"id":1,"method":"Browser.close"}\0' >&"$browser_in"
  wait "$browser_pid" || :
  exec {browser_in}>&- {browser_out}>&-
  browser_pid=''
}

# Calls a method and prints its result; fails if the browser returns an error.
browser() { # <method> [<parameters>]
  local id=$((RANDOM * 32768 + RANDOM)) session='' answer
  [[ ! -e $browser_folder/session ]] || session=",\"sessionId\":\"$(<"$browser_folder/session")\""
  printf '{"id":%d,"method":"%s","params":%s%s}\0' "$id" "$1" "${2:-"{}"}" "$session" >&"$browser_in"
  while IFS= read -r -d '' -t 120 -u "$browser_out" answer; do
    if [[ $answer == "{\"id\":$id,\"result\":"* ]]; then
      [[ -z $session ]] || answer=${answer%,\"sessionId\":*}\}
      answer=${answer#*,\"result\":}
      printf '%s\n' "${answer%\}}"
      return
    fi
    [[ $answer != "{\"id\":$id,"* ]] || fail "$1: $answer"
    printf '%s\n' "$answer" >>"$browser_folder/events"
  done
  cat "$browser_folder/log" >&2
  fail "no answer from the browser to $1"
}

# A text of several lines without other control characters. jq takes 30 ms to start.
json_string() { # <text>
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//$'\n'/\\n}"
}

# Opens a page of 1600 x 1000 and waits until it is loaded.
open_page() { # <url>
  local target
  target=$(browser Target.createTarget '{"url":"about:blank"}' | jq -r .targetId)
  printf '%s\n' "$target" >"$browser_folder/target"
  browser Target.attachToTarget "{\"targetId\":\"$target\",\"flatten\":true}" | jq -r .sessionId >"$browser_folder/session.new"
  mv "$browser_folder/session.new" "$browser_folder/session"
  browser Runtime.enable >/dev/null
  browser Log.enable >/dev/null
  browser Page.enable >/dev/null
  browser Page.navigate "{\"url\":$(json_string "$1")}" >/dev/null
  wait_until 60 page_loaded
}

# For the teardown of a file with one browser: closes the page, and forgets what it complained of.
close_page() {
  [[ -e $browser_folder/target ]] || return 0
  rm -f "$browser_folder/session"
  browser Target.closeTarget "{\"targetId\":\"$(<"$browser_folder/target")\"}" >/dev/null
  rm -f "$browser_folder/target" "$browser_folder/events"
}

page_loaded() { [[ $(in_page 'document.readyState + location.protocol') == complete@(http|https|file): ]]; }

# Prints the value of an expression as text.
in_page() { # <javascript>
  browser Runtime.evaluate "{\"expression\":$(json_string "String($1)"),\"awaitPromise\":true,\"returnByValue\":true}" |
    jq -r '.exceptionDetails.exception.description // .result.value'
}

# Clicks into the middle of the element that the selector finds.
click_on() { # <css selector>
  local at kind
  at=$(in_page "(e => { e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();
    return JSON.stringify({x: r.x + r.width / 2, y: r.y + r.height / 2}) })(document.querySelector('$1'))")
  for kind in mousePressed mouseReleased; do
    browser Input.dispatchMouseEvent "$(jq -c --arg type "$kind" '. + {$type, button: "left", clickCount: 1}' <<<"$at")" >/dev/null
  done
}

type_text() { browser Input.insertText "{\"text\":$(json_string "$1")}" >/dev/null; }  # <text>

screenshot() { browser Page.captureScreenshot | jq -r .data | base64 -d >"$1"; }  # <file>

# Keeps a screenshot in the folder VL_SCREENSHOTS, if that is set.
picture() { # <name>
  [[ -z ${VL_SCREENSHOTS-} ]] || screenshot "$VL_SCREENSHOTS/$1.png"
}

# Prints errors and warnings of the page so far, one a line.
browser_complaints() {
  browser Runtime.evaluate '{"expression":"0"}' >/dev/null     # events arrive before this answer
  jq -r 'select(.method == "Runtime.exceptionThrown") // select(.method == "Log.entryAdded" and .params.entry.level != "verbose")
      // select(.method == "Runtime.consoleAPICalled" and (.params.type | IN("error", "warning", "assert")))
      | .params | tostring' "$browser_folder/events"
}
