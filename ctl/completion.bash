# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Completion of vhostlimitctl for bash: commands, and the vhosts of the server.

# The command's place among the words, after options; sets command and at.
_vhostlimitctl_command() {
  command='' at=0 socket=()
  local i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      -s) socket=(-s "${COMP_WORDS[++i]-}") ;;
      --plan | --for | --file | --php | --user) i=$((i + 1)) ;;
      -*) ;;
      *) command=${COMP_WORDS[i]} at=$i; return ;;
    esac
  done
}

# Names with other characters than printable ASCII are shown with question marks, and are
# not offered.
_vhostlimitctl_vhosts() { # <socket option>...
  vhostlimitctl "$@" top name 2>/dev/null | sed -n '/^SITE /,$ { /^SITE /d; s/ .*//; /?/d; p; }'
}

_vhostlimitctl_words() { # what may stand where the cursor is
  case $command:$((COMP_CWORD - at)) in
    :*) echo top show set reset plans import unit enter clients explain mine watch history collect report fleet doctor -s --json -h --help --version ;;
    top:1) echo cpu running waiting refused rate name ;;
    show:1 | set:1 | reset:1 | unit:1 | enter:1 | clients:1 | explain:1 | history:1) _vhostlimitctl_vhosts "${socket[@]}" ;;
    import:1) echo lve mod_qos ;;
    import:2) compgen -f -- "$word" ;;
    set:*) echo weight= concurrency= queue= cpu= memory= processes= io= --for --save ;;
    reset:*) echo weight concurrency queue cpu memory processes io ;;
    unit:*) echo --php --user --install --remove --force ;;
    history:*) echo --since --csv --file ;;
    watch:*) echo --site --count ;;
    collect:*) echo --file ;;
  esac
}

_vhostlimitctl() {
  local word=${COMP_WORDS[COMP_CWORD]} command at socket
  _vhostlimitctl_command
  [[ ${COMP_WORDS[COMP_CWORD - 1]} != -s ]] || { mapfile -t COMPREPLY < <(compgen -f -- "$word"); return; }
  mapfile -t COMPREPLY < <(compgen -W "$(_vhostlimitctl_words)" -- "$word")
  [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null || :
  # A colon is a word's end to readline: it has what stands before it already.
  ! declare -F __ltrim_colon_completions >/dev/null || __ltrim_colon_completions "$word"
}
complete -F _vhostlimitctl vhostlimitctl
