/* SPDX-License-Identifier: Apache-2.0 */
#include "request/vl_http2.h"

#include <stdlib.h>

#include <ap_mpm.h>
#include <apr_strings.h>
#include <http_config.h>
#include <http_log.h>
#include <http_protocol.h>

#include "config/vl_conf.h"
#include "base/vl_private.h"

/* A stream that begins wakes a thread of mod_http2. If no thread sleeps, it wakes none, and a
 * busy thread may go to sleep after it has looked at another connection only (slot_run() in
 * h2_workers.c). The stream then runs when others begin. When few run at a time, as here, that
 * can take long. docs/design/007-leases.md has the measurements. */
#define WORKERS_MIN 8u

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

/* Returns 1 if a server with mode On speaks HTTP/2. */
static int is_any_http2(server_rec *s)
{
    for (; s; s = s->next) {
        if (vl_conf_get(s)->mode == VL_MODE_ON
            && (ap_is_allowed_protocol(NULL, NULL, s, "h2")
                || ap_is_allowed_protocol(NULL, NULL, s, "h2c")))
            return 1;
    }
    return 0;
}

void vl_http2_check_workers(server_rec *main_server)
{
    apr_uint32_t workers;
    int threads;

    if (ap_mpm_query(AP_MPMQ_MAX_THREADS, &threads) != APR_SUCCESS)
        return;
    workers = vl_http2_workers(threads);
    if (workers && workers < WORKERS_MIN && is_any_http2(main_server))
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, main_server, VLOGNO(0039)
                     "mod_http2 has %u threads in a child process. With fewer than %u, "
                     "streams may wait while the server is idle: set H2MaxWorkers to %u or "
                     "more", (unsigned)workers, WORKERS_MIN, WORKERS_MIN);
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
