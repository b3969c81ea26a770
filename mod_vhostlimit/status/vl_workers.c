/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "status/vl_workers.h"

#include <unistd.h>

#include <apr_strings.h>
#include <http_config.h>
#include <http_core.h>
#include <http_log.h>

#include "base/vl_private.h"
#include "config/vl_conf.h"
#include "core/vl_shm.h"

/* Messages of the MPMs, logged by the parent: MaxRequestWorkers is reached (event, worker,
 * prefork), or the scoreboard is full (event, event before 2.4.24, worker). */
static const char *const messages[] = {
    "AH00484", "AH00286", "AH00161", "AH03490", "AH00485", "AH00288"
};

/* The main thread of the parent writes, the control thread reads. */
static vl_workers_kept_t *last;

static const server_rec *main_server;
static const apr_array_header_t *servers;
static vl_shm_t *segment;
static pid_t parent;

static void find_site(void)
{
    vl_account_snapshot_t snapshot;
    int i;

    last->running = last->all = 0;
    for (i = 0; i < servers->nelts; i++) {
        const vl_conf_t *conf = vl_conf_get(APR_ARRAY_IDX(servers, i, const server_rec *));

        if (vl_shm_snapshot(segment, conf->account, &snapshot) != APR_SUCCESS)
            return;
        last->all += snapshot.metrics.running;
        if (snapshot.metrics.running <= last->running)
            continue;
        last->running = snapshot.metrics.running;
        apr_cpystrn(last->site, snapshot.name, sizeof(last->site));
    }
}

/* error_log hook. */
static void note_message(const ap_errorlog_info *info, const char *text)
{
    unsigned i;

    if (info->r || info->c || !segment || getpid() != parent)
        return;
    for (i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        if (strncmp(text, messages[i], 7) != 0)
            continue;
        /* That the scoreboard is full is logged each second. */
        if (last->message == i + 1 && apr_time_now() - last->at < apr_time_from_sec(60))
            return;
        __atomic_store_n(&last->message, 0, __ATOMIC_RELEASE);
        find_site();
        if (!last->running)
            return;
        last->at = apr_time_now();
        __atomic_store_n(&last->message, i + 1, __ATOMIC_RELEASE);
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, main_server, VLOGNO(0081)
                     "at %s site %s had %" APR_UINT64_T_FMT " of %" APR_UINT64_T_FMT " running "
                     "requests, more than any other site. See vhostlimitctl explain %s",
                     messages[i], last->site, last->running, last->all, last->site);
        return;
    }
}

void vl_workers_json(vl_out_t *out)
{
    unsigned message = __atomic_load_n(&last->message, __ATOMIC_ACQUIRE);

    if (!message) {
        vl_out_text(out, "null");
        return;
    }
    vl_out_printf(out, "{\"message\":\"%s\",\"at_s\":%" APR_INT64_T_FMT,
                  messages[message - 1], apr_time_sec(last->at));
    vl_out_json(out, ",\"site\":", last->site);
    vl_out_printf(out, ",\"running\":%" APR_UINT64_T_FMT ",\"all\":%" APR_UINT64_T_FMT "}",
                  last->running, last->all);
}

void vl_workers_post_config(vl_workers_kept_t *kept, const server_rec *s,
                            const apr_array_header_t *sites, vl_shm_t *shm)
{
    last = kept;
    main_server = s;
    servers = sites;
    segment = shm;
    parent = getpid();
}

void vl_workers_register(void)
{
    ap_hook_error_log(note_message, NULL, NULL, APR_HOOK_MIDDLE);
}
