/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_http2.h"

#include <stdlib.h>

#include <apr_strings.h>
#include <http_config.h>
#include <http_log.h>

#include "vl_conf.h"
#include "vl_private.h"

/* A hundred streams of each of a few busy connections.  They are made when they
 * are wanted, and end when they have been idle. */
#define WORKERS 512

static apr_uint32_t workers;

static const command_rec *command_of(const module *m, const char *name)
{
    const command_rec *cmd = m->cmds;

    while (cmd && cmd->name && ap_cstr_casecmp(cmd->name, name))
        cmd++;
    return cmd && cmd->name && cmd->args_how == TAKE1 ? cmd : NULL;
}

/* As if it stood in the configuration. */
static const char *configure(apr_pool_t *pconf, server_rec *main_server,
                             const command_rec *cmd, const char *value)
{
    cmd_parms parms = { 0 };

    ap_directive_t nowhere = { 0 };

    parms.directive = &nowhere;
    parms.server = main_server;
    parms.pool = parms.temp_pool = pconf;
    parms.cmd = cmd;
    parms.info = cmd->cmd_data;
    return cmd->AP_TAKE1(&parms, NULL, value);
}

/* Only then does anything wait. */
static int is_on(server_rec *s)
{
    while (s && vl_conf_get(s)->mode != VL_MODE_ON)
        s = s->next;
    return s != NULL;
}

void vl_http2_post_config(apr_pool_t *pconf, server_rec *main_server)
{
    const module *http2 = ap_find_linked_module("mod_http2.c");
    const char *most = vl_conf_argument("H2MaxWorkers");
    const command_rec *cmd = http2 ? command_of(http2, "H2MaxWorkers") : NULL;

    workers = 0;
    if (!cmd || !is_on(main_server))
        return;
    workers = most ? (apr_uint32_t)strtol(most, NULL, 10) : WORKERS;
    if (!most)
        configure(pconf, main_server, cmd, apr_itoa(pconf, WORKERS));
}

apr_uint32_t vl_http2_workers(void)
{
    return workers;
}

#define FACTOR "1000"

void vl_http2_let_wait(apr_pool_t *pconf, server_rec *main_server)
{
    const module *event = ap_find_linked_module("event.c");
    const command_rec *cmd = event ? command_of(event, "AsyncRequestWorkerFactor")
                                   : NULL;

    if (cmd && is_on(main_server) && !vl_conf_argument("AsyncRequestWorkerFactor"))
        configure(pconf, main_server, cmd, FACTOR);
}
