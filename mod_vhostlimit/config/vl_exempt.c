/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_exempt.h"

#include <ap_expr.h>

#include "config/vl_conf.h"
#include "config/vl_seen.h"

int vl_exempt(request_rec *r, apr_table_t *sent)
{
    const vl_conf_t *conf = vl_conf_get(r->server);
    const char *failed = NULL;
    vl_seen_t saved;
    int yes;

    if (!conf->exempt)
        return 0;
    vl_seen_begin(r, sent, &saved);
    yes = ap_expr_exec(r, conf->exempt, &failed);
    vl_seen_end(r, &saved);
    if (failed)
        ap_log_rerror(APLOG_MARK, APLOG_DEBUG, 0, r, VLOGNO(0014)
                      "VhostLimitExempt of site %s: %s; the request is not exempt",
                      conf->site->name, failed);
    return yes > 0 && !failed;
}
