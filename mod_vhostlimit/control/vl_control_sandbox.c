/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the sandbox of a site, for programs that start outside of the server: the unit of
 * "vhostlimitctl unit". */
#include <unixd.h>

#include "config/vl_conf.h"
#include "config/vl_sandboxes.h"
#include "control/vl_control_int.h"

static const char *const access_names[] = {
    [VL_RULE_HIDE] = "hide", [VL_RULE_TMP] = "tmp", [VL_RULE_RO] = "ro",
    [VL_RULE_RW] = "rw", [VL_RULE_DEVICE] = "device", [VL_RULE_PROC] = "proc"
};

void vl_control_sandbox_json(vl_out_t *out, server_rec *main_server, const server_rec *s)
{
    const vl_site_t *site = vl_conf_get(s)->site;
    const char *before = "\n";
    vl_sandbox_e mode;
    const apr_array_header_t *rules = vl_sandboxes_rules(out->pool, main_server, site, &mode);
    int i;

    vl_out_text(out, "{\"site\":");
    vl_out_json(out, site->name);
    vl_out_printf(out, ",\"mode\":\"%s\",\"user\":%lu,\"rules\":[",
                  vl_sandbox_mode_name(mode), (unsigned long)ap_unixd_config.user_id);
    for (i = 0; i < rules->nelts; i++) {
        const vl_rule_t *rule = &APR_ARRAY_IDX(rules, i, vl_rule_t);

        vl_out_printf(out, "%s{\"access\":\"%s\",\"configured\":%s,\"path\":", before,
                      access_names[rule->access], rule->is_configured ? "true" : "false");
        vl_out_json(out, rule->path);
        vl_out_text(out, "}");
        before = ",\n";
    }
    vl_out_text(out, "\n]}\n");
}
