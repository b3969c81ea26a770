# SPDX-License-Identifier: Apache-2.0
# What doctor has to know of the server: lines of a name, a tab and a value.

include "ctl";

def ours: "mod_vhostlimit.c";
def distinct: reduce .[] as $name ([]; if index($name) then . else . + [$name] end);

def facts: { module: .module, mpm, workers, slots,
    threads: ([.vhosts[] | select(.method == "thread")] | length),
    vhosts: (.vhosts | length), dry: ([.vhosts[] | select(.mode == "dryrun")] | length),
    limited: ([.vhosts[] | select(.limited_s > 0)] | length), changed: ([.vhosts[] | select(.overridden != {})] | length),
    backend: .cgroup.backend, path: .cgroup.path, reason: .cgroup.reason, outside: .cgroup.outside,
    descriptors: ((.vhosts | length) * 12 + ([.vhosts[].queue] | max // 0) * 2 + .workers / ([.children, 1] | max) * 5 + 200 | ceil) }
  | to_entries[] | "\(.key)\t\(.value | plain)";

# Of a hook's functions, those before ours and those behind it.
def before: .[:index(ours)] | distinct | join(" ");
def behind: .[index(ours) + 1:] | map(select(. != ours)) | distinct | join(" ");

def order: { modules: (.modules | join(" ")),
    before: (.hooks.quick_handler | before), behind: (.hooks.post_read_request | behind),
    logs: (.hooks.log_transaction | before) }
  | to_entries[] | "\(.key)\t\(.value | plain)";
