/* SPDX-License-Identifier: Apache-2.0 */
/* A module for tests, with the core built in. Its handler checks the invariants of the
 * server's shared memory. ValidateSquat PID... assigns columns of child processes to
 * processes that are alive. */
#include <stdlib.h>

#include <httpd.h>
#include <http_config.h>
#include <http_main.h>
#include <http_protocol.h>

#include "vl_layout.h"
#include "core/vl_shm_child.h"
#include "core/vl_segment.h"
#include "../unit/validate.h"

/* The data that mod_vhostlimit keeps under its name begins with the segment. */
static vl_shm_t *find_segment(void)
{
    void *data = NULL;

    apr_pool_userdata_get(&data, "mod_vhostlimit:" VL_LAYOUT, ap_pglobal);
    return data ? *(vl_shm_t **)data : NULL;
}

static int say(request_rec *r)
{
    vl_shm_t *shm = find_segment();
    const char *why;

    if (!r->handler || strcmp(r->handler, "validate"))
        return DECLINED;
    why = shm ? validate(shm) : "there is no segment";
    ap_rputs(why ? why : "valid", r);
    return OK;
}

static apr_array_header_t *squatters;

static const char *add_squatter(cmd_parms *cmd, void *unused, const char *arg)
{
    if (!squatters)
        squatters = apr_array_make(cmd->pool, 8, sizeof(pid_t));
    APR_ARRAY_PUSH(squatters, pid_t) = (pid_t)atoi(arg);
    return NULL;
}

static int squat(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp,
                 server_rec *s)
{
    vl_shm_t *shm = find_segment();
    int i;

    for (i = 0; shm && squatters && i < squatters->nelts; i++)
        vl_shm_child_attach(shm, APR_ARRAY_IDX(squatters, i, pid_t), 1);
    if (shm)
        shm->self = NO_CHILD;
    return OK;
}

static void register_hooks(apr_pool_t *p)
{
    squatters = NULL;
    ap_hook_post_config(squat, NULL, NULL, APR_HOOK_REALLY_LAST);
    ap_hook_handler(say, NULL, NULL, APR_HOOK_MIDDLE);
}

static const command_rec commands[] = {
    AP_INIT_ITERATE("ValidateSquat", add_squatter, NULL, RSRC_CONF, ""),
    { NULL }
};

AP_DECLARE_MODULE(validate) = {
    STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, commands, register_hooks
};
