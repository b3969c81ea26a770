/* SPDX-License-Identifier: Apache-2.0 */
#include "log/vl_notice.h"

#include <apr_strings.h>
#include <mpm_common.h>

#include "base/vl_clock.h"
#include "base/vl_private.h"
#include "core/vl_limited.h"
#include "core/vl_slot.h"

static server_rec *main_server;
static vl_shm_t *segment;

/* Logs that the site has become limited. */
static void log_begins(const vl_limited_event_t *event)
{
    const vl_limited_look_t *before = &event->before;
    int is_capped = event->limits.concurrency
                    && event->metrics.running >= event->limits.concurrency;
    char limit[64];

    if (is_capped)
        apr_snprintf(limit, sizeof(limit), "VhostLimitConcurrency %u", event->limits.concurrency);
    else
        apr_snprintf(limit, sizeof(limit), "its share of the server (%u slots)",
                     vl_shm_facts(segment).slots);
    ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, main_server, VLOGNO(0011)
                 "site %s: limited by %s: %" APR_UINT64_T_FMT " running, %"
                 APR_UINT64_T_FMT " queued, %" APR_UINT64_T_FMT " deferred, %"
                 APR_UINT64_T_FMT " refused in %.0f s. Raise %s if the site may use more",
                 event->name, limit,
                 event->metrics.running, event->metrics.waiting,
                 event->metrics.deferred,
                 event->metrics.refused - before->refused,
                 (double)(event->since_us - before->at_us) / APR_USEC_PER_SEC,
                 is_capped ? "VhostLimitConcurrency" : "VhostLimitWeight");
}

static void log_event(const vl_limited_event_t *event)
{
    const vl_limited_look_t *before = &event->before;

    if (event->killed)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, main_server, VLOGNO(0022)
                     "site %s: the kernel killed %" APR_UINT64_T_FMT
                     " of its back-end processes for lack of memory, %" APR_UINT64_T_FMT
                     " since the start. Raise VhostLimitMemory, or make its programs use less",
                     event->name, event->killed, event->metrics.memory_kills);
    if (event->what == VL_LIMITED_BEGINS)
        log_begins(event);
    if (event->what == VL_LIMITED_ENDS)
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, main_server, VLOGNO(0012)
                     "site %s: no longer limited after %.0f s: %"
                     APR_UINT64_T_FMT " requests admitted, %" APR_UINT64_T_FMT
                     " of them queued first, %" APR_UINT64_T_FMT " refused",
                     event->name,
                     (double)(event->seen_us - before->at_us) / APR_USEC_PER_SEC,
                     event->metrics.requests - before->requests,
                     event->metrics.queued - before->queued,
                     event->metrics.refused - before->refused);
}

void vl_notice_tick(apr_int64_t now_us)
{
    vl_limited_event_t events[VL_LIMITED_EVENTS];
    apr_uint32_t account = 0;
    apr_size_t i, n;

    if (!vl_limited_is_due(segment, now_us))
        return;
    do {
        n = vl_limited_check(segment, now_us, &account, events);
        for (i = 0; i < n; i++)
            log_event(&events[i]);
    } while (account);
}

/* Monitor hook: the parent calls it about every ten seconds. If prefork works
 * without an acceptor (vl_listener_obstacle()), no child process has a timer, and only this
 * hook checks the accounts. */
static int monitor(apr_pool_t *p, server_rec *s)
{
    if (segment)
        vl_notice_tick(vl_clock_us());
    return DECLINED;
}

void vl_notice_post_config(server_rec *s, vl_shm_t *shm)
{
    main_server = s;
    segment = shm;
    vl_notice_tick(vl_clock_us());      /* a first look, before any request is refused */
}

void vl_notice_register(apr_pool_t *p)
{
    ap_hook_monitor(monitor, NULL, NULL, APR_HOOK_MIDDLE);
}
