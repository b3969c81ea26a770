/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/vl_outside.h"

#include <http_config.h>

#include "base/vl_private.h"

const char *vl_outside(const vl_cgroup_t *cg)
{
    if (!*vl_cgroup_path(cg))
        return "";
    if (ap_find_linked_module("mod_cgid.c"))
        return "mod_cgid";
    return ap_find_linked_module("mod_fcgid.c") ? "mod_fcgid" : "";
}

void vl_outside_post_config(server_rec *main_server, const vl_cgroup_t *cg)
{
    const char *name = vl_outside(cg);

    if (*name)
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, main_server, VLOGNO(0023)
                     "%s's programs run in no site's cgroup: what they cost "
                     "is estimated, and no limit of a site binds them%s",
                     name, strcmp(name, "mod_cgid") ? ""
                     : "; mod_cgi's run in their site's");
}
