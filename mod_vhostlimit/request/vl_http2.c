/* SPDX-License-Identifier: Apache-2.0 */
#include "request/vl_http2.h"

#include <stdlib.h>

#include <apr_strings.h>
#include <http_config.h>
#include <http_log.h>

#include "config/vl_conf.h"
#include "base/vl_private.h"

/* Returns 1 if any server has mode On. Otherwise no connection is queued. */
static int is_any_on(server_rec *s)
{
    while (s && vl_conf_get(s)->mode != VL_MODE_ON)
        s = s->next;
    return s != NULL;
}

/* Sets the factor as if it were in the configuration, because the MPM offers no other
 * way. */
void vl_http2_let_wait(apr_pool_t *pconf, server_rec *main_server)
{
    static const char name[] = "AsyncRequestWorkerFactor", factor[] = "1000";
    const module *event = ap_find_linked_module("event.c");
    const command_rec *cmd = event ? event->cmds : NULL;
    ap_directive_t directive = { 0 };
    cmd_parms parms = { 0 };
    const char *error;

    if (!is_any_on(main_server) || vl_conf_argument(name))
        return;
    while (cmd && cmd->name && ap_cstr_casecmp(cmd->name, name))
        cmd++;
    if (!cmd || !cmd->name || cmd->args_how != TAKE1)
        return;
    parms.directive = &directive;
    parms.server = main_server;
    parms.pool = parms.temp_pool = pconf;
    parms.limited = -1;             /* not inside <Limit> */
    parms.cmd = cmd;
    parms.info = cmd->cmd_data;
    error = cmd->AP_TAKE1(&parms, NULL, factor);
    if (error)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, main_server, VLOGNO(0036)
                     "%s cannot be set to %s (%s): if many connections wait in the "
                     "MPM, it may stop accepting. Write %s %s into the configuration",
                     name, factor, error, name, factor);
}

/* The same rules as h2_get_workers_config() of mod_http2. */
apr_uint32_t vl_http2_workers(int threads)
{
    const char *max_text = vl_conf_argument("H2MaxWorkers");
    const char *min_text = vl_conf_argument("H2MinWorkers");
    long min = min_text ? strtol(min_text, NULL, 10) : 0;
    long max = max_text ? strtol(max_text, NULL, 10) : 0;

    if (!ap_find_linked_module("mod_http2.c"))
        return 0;
    if (min <= 0)
        min = threads;
    if (max <= 0)
        max = 3 * min / 2 > 4 ? 3 * min / 2 : 4;
    return (apr_uint32_t)max;
}
