# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sites of Virtualmin. The folder domains has a file for each virtual server with lines
# key=value: its id, its domain (dom), user, plan, and the id of the virtual server that it
# belongs to (parent). web=1 means a virtual host in Apache; one with alias_mode=1 is a
# ServerAlias of another. The folder plans has a file for each plan, with its name.

list_virtualmin() {
  local folder=${WEBMIN_CONFIG:-/etc/webmin}/virtual-server files
  [[ -d $folder/domains ]] || { say "there is no $folder/domains: is Virtualmin installed? WEBMIN_CONFIG names another folder."; return 1; }
  mapfile -t files < <(find "$folder/plans" "$folder/domains" -maxdepth 1 -type f -name '[0-9]*' 2>/dev/null | sort)
  ((${#files[@]})) || return 0
  awk '
    FNR == 1 { n = split(FILENAME, path, "/"); id = path[n]; kind = path[n - 1]; if (kind == "domains") order[++count] = id }
    { at = index($0, "="); if (!at) next; value[kind, id, substr($0, 1, at - 1)] = substr($0, at + 1) }
    # The customer is the user of the virtual server at the top, and so is the plan.
    function top(id,   above, depth) {
      while ((above = value["domains", id, "parent"]) != "" && ("domains", above, "dom") in value && depth++ < 10)
        id = above
      return id
    }
    END {
      for (i = 1; i <= count; i++) {
        id = order[i]; owner = top(id)
        if (value["domains", id, "web"] != 1 || value["domains", id, "alias_mode"] == 1)
          continue
        plan = value["domains", owner, "plan"]
        name = value["plans", plan, "name"]
        printf "%s\t%s\t%s\n", value["domains", id, "dom"], value["domains", owner, "user"], name != "" ? name : plan
      }
    }' "${files[@]}"
}
