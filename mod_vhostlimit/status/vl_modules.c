/* SPDX-License-Identifier: Apache-2.0 */
#include "status/vl_modules.h"

#include <http_config.h>
#include <http_protocol.h>
#include <http_request.h>

#include "base/vl_private.h"
#include "status/vl_workers.h"

/* Hooks for which the order relative to other modules matters. */
#define HOOKS(X) X(post_read_request) X(quick_handler) X(log_transaction)

#define X(hook)                                                               \
static void put_##hook(vl_out_t *out)                                         \
{                                                                             \
    const apr_array_header_t *all = ap_hook_get_##hook();                     \
    int i;                                                                    \
                                                                              \
    for (i = 0; all && i < all->nelts; i++) {                                 \
        const char *name = APR_ARRAY_IDX(all, i, ap_LINK_##hook##_t).szName;  \
                                                                              \
        vl_out_json(out, i ? "," : "", name ? name : "");                     \
    }                                                                         \
}
HOOKS(X)
#undef X

static const struct {
    const char *name;
    void (*put)(vl_out_t *out);
} hooks[] = {
#define X(hook) { #hook, put_##hook },
    HOOKS(X)
#undef X
};

void vl_modules_json(vl_out_t *out)
{
    const module *m;
    unsigned i;

    vl_out_text(out, "{\"modules\":[");
    for (m = ap_top_module; m; m = m->next)
        vl_out_json(out, m == ap_top_module ? "" : ",", m->name);
    vl_out_text(out, "],\"hooks\":{");
    for (i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++) {
        vl_out_json(out, i ? "," : "", hooks[i].name);
        vl_out_text(out, ":[");
        hooks[i].put(out);
        vl_out_text(out, "]");
    }
    vl_out_text(out, "},\"no_worker\":");
    vl_workers_json(out);
    vl_out_text(out, "}\n");
}

const char *vl_modules_outside(const vl_cgroup_t *cg)
{
    if (!*vl_cgroup_path(cg))
        return "";
    if (ap_find_linked_module("mod_cgid.c"))
        return "mod_cgid";
    return ap_find_linked_module("mod_fcgid.c") ? "mod_fcgid" : "";
}

void vl_modules_post_config(server_rec *main_server, const vl_cgroup_t *cg)
{
    const char *name = vl_modules_outside(cg);

    if (*name)
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, main_server, VLOGNO(0023)
                     "programs of %s run in no site's cgroup: the kernel enforces no "
                     "limit of a site on them%s", name, strcmp(name, "mod_cgid") ? ""
                     : ". Load mod_cgi instead: its programs run in their site's "
                     "cgroup");
}
