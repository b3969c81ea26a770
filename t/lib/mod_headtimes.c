/* SPDX-License-Identifier: Apache-2.0 */
/* Logs, for each virtual host, the timeouts that mod_reqtimeout has read from RequestReadTimeout
 * beside those that mod_vhostlimit has read: "headtimes NAME THEIRS / OURS".  THEIRS has the
 * layout of reqtimeout_srv_cfg in mod_reqtimeout.c, which exports nothing.  Nothing here refers
 * to the symbol of mod_vhostlimit, which other modules do not see. */
#include <apr_strings.h>
#include <httpd.h>
#include <http_config.h>
#include <http_core.h>
#include <http_log.h>

#include "config/vl_conf.h"

typedef struct stage_t {
    int timeout, max_timeout, min_rate;
    apr_time_t rate_factor;
} stage_t;

typedef struct reqtimeout_t {
    stage_t handshake, header, body;
} reqtimeout_t;

static const char *theirs(apr_pool_t *p, const stage_t *stage, int initial, int most, int rate)
{
    if (stage->timeout != -1)
        return apr_psprintf(p, "%d-%d+%" APR_TIME_T_FMT, stage->timeout, stage->max_timeout,
                            stage->min_rate ? stage->rate_factor : 0);
    return apr_psprintf(p, "%d-%d+%d", initial, most, rate ? 1000000 / rate : 0);
}

static const char *ours(apr_pool_t *p, const vl_stage_t *stage)
{
    return apr_psprintf(p, "%" APR_INT64_T_FMT "-%" APR_INT64_T_FMT "+%" APR_INT64_T_FMT,
                        stage->initial_us / 1000000, stage->max_us / 1000000,
                        stage->us_per_byte);
}

static int compare(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *p, server_rec *s)
{
    module *reqtimeout = ap_find_linked_module("mod_reqtimeout.c");
    module *vhostlimit = ap_find_linked_module("mod_vhostlimit.c");

    if (ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG)
        return OK;              /* of the first reading, nothing is kept */
    for (; s; s = s->next) {
        const reqtimeout_t *their = ap_get_module_config(s->module_config, reqtimeout);
        const vl_conf_t *our = ap_get_module_config(s->module_config, vhostlimit);

        ap_log_error(__FILE__, __LINE__, APLOG_NO_MODULE, APLOG_NOTICE, 0, s, "headtimes %s %s %s / %s %s",
                     s->server_hostname, theirs(p, &their->handshake, 0, 0, 0),
                     theirs(p, &their->header, 20, 40, 500),
                     ours(p, &our->head_time.handshake), ours(p, &our->head_time.header));
    }
    return OK;
}

static void register_hooks(apr_pool_t *p)
{
    ap_hook_post_config(compare, NULL, NULL, APR_HOOK_REALLY_LAST);
}

module AP_MODULE_DECLARE_DATA headtimes_module = {
    STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, register_hooks
};
