# SPDX-License-Identifier: Apache-2.0
# The text of a summary from sar.jq.

include "report";

def heading: "\(.host): \(.system), \(.cpus | count("CPU")), \(.samples | count("sample")) over \(.seconds) s, \(.from) to \(.to) UTC";

# Rows of cells set apart by \x1f; an empty one between tables.
def row: map(if type == "string" then . else fixed(2) end) | join("\u001f");
def tables:
  (["CPU, %", "user", "nice", "system", "iowait", "steal", "idle"],
   (.cpu | to_entries[] | [.key] + (.value | [.user, .nice, .system, .iowait, .steal, .idle])),
   (.memory | values | [], ["memory", "used", "of all, %"], ["", "\(.used_kb | fixed(0)) kB", .used_percent]),
   (.queue | values | [], ["queue", "running", "blocked", "tasks", "load 1 min", "5 min", "15 min"],
                      ["", .running, .blocked, .tasks, .load_1, .load_5, .load_15]),
   (.pressure | values | [], ["pressure, %", "some", "full"],
                         (to_entries[] | [.key, .value.some, .value.full])))
  | row;
