/* SPDX-License-Identifier: Apache-2.0 */
#include "control/vl_control_figures.h"

#include <apr_time.h>

#include "base/vl_clock.h"
#include "config/vl_conf.h"
#include "core/vl_metrics.h"
#include "core/vl_slot.h"
#include "status/vl_status_int.h"

/* Incremented when a member is renamed or changes its meaning. */
#define SCHEMA 1
/* Accounts that are copied while the segment lock is held once. */
#define BATCH 64

/* The numbers of a site: name, value in the snapshot s of the account. */
#define COLUMNS(X)                                                          \
    X("mode", (apr_uint64_t)s->limits.mode)                                 \
    X("weight", s->limits.weight)                                           \
    X("concurrency", s->limits.concurrency)                                 \
    X("queue", s->limits.queue)                                             \
    X("cpu", s->limits.cpu)                                                 \
    X("limited_s", limited_s(s, now_us))                                    \
    X("running", s->metrics.running)                                        \
    X("runnable_permille", s->load)                                         \
    X("waiting", s->metrics.waiting)                                        \
    X("deferred", s->metrics.deferred)                                      \
    X("requests", s->metrics.requests)                                      \
    X("queued", s->metrics.queued)                                          \
    X("refused", s->metrics.refused)                                        \
    X("refused_concurrency", s->metrics.refused_concurrency)                \
    X("refused_queue", s->metrics.refused_queue)                            \
    X("refused_timeout", s->metrics.refused_timeout)                        \
    X("gone", s->metrics.gone)                                              \
    X("wait_us", s->metrics.wait_us)                                        \
    X("busy_us", s->metrics.busy_us)                                        \
    X("charged_us", s->metrics.charged_us)

static struct {
    apr_int64_t configured_us;          /* Unix time of the last (re)configuration */
    apr_uint32_t children_lost, requests_lost;  /* atomic */
} events;

void vl_control_figures_post_config(void)
{
    events.configured_us = apr_time_now();
}

void vl_control_figures_child_lost(apr_uint32_t running)
{
    __atomic_fetch_add(&events.requests_lost, running, __ATOMIC_RELAXED);
    __atomic_fetch_add(&events.children_lost, 1, __ATOMIC_RELAXED);
}

/* Returns for how long the site has been limited: at least 1 while it is, else 0. */
static apr_uint64_t limited_s(const vl_account_snapshot_t *s, apr_int64_t now_us)
{
    if (!s->limited_since_us)
        return 0;
    return 1 + (apr_uint64_t)apr_time_sec(now_us > s->limited_since_us
                                          ? now_us - s->limited_since_us : 0);
}

static void put_number(vl_out_t *out, const char *before, apr_uint64_t n)
{
    vl_out_text(out, before);
    vl_out_number(out, n);
}

static void put_head(vl_out_t *out, vl_shm_t *shm)
{
    unsigned b;

    put_number(out, "{\"schema\":", SCHEMA);
    put_number(out, ",\"now_us\":", (apr_uint64_t)apr_time_now());
    put_number(out, ",\"started_us\":", (apr_uint64_t)vl_shm_created_us(shm));
    put_number(out, ",\"configured_us\":", (apr_uint64_t)events.configured_us);
    put_number(out, ",\"children_lost\":",
               __atomic_load_n(&events.children_lost, __ATOMIC_RELAXED));
    put_number(out, ",\"requests_lost\":",
               __atomic_load_n(&events.requests_lost, __ATOMIC_RELAXED));
    put_number(out, ",\"slots\":", vl_slot_count(shm));
    put_number(out, ",\"processors\":", vl_shm_processors(shm));
    vl_out_text(out, ",\"wait_limits_us\":[0");
    for (b = 1; b < VL_WAIT_BUCKETS; b++)
        put_number(out, ",", vl_metrics_wait_us(b + 1) - 1);
    vl_out_text(out, "],\"columns\":[\"name\"");
#define X(name, value) vl_out_text(out, ",\"" name "\"");
    COLUMNS(X)
#undef X
    vl_out_text(out, ",\"waits\"],\"sites\":[");
}

static void put_waits(vl_out_t *out, const vl_account_snapshot_t *s)
{
    const char *before = "";
    unsigned b;

    vl_out_text(out, ",[");
    for (b = 0; b < VL_WAIT_BUCKETS; b++) {
        if (!s->waits[b])
            continue;
        put_number(out, before, b);
        put_number(out, ",", s->waits[b]);
        before = ",";
    }
    vl_out_text(out, "]");
}

static void put_site(vl_out_t *out, const vl_account_snapshot_t *s, apr_int64_t now_us,
                     int is_first)
{
    vl_out_text(out, is_first ? "\n[" : ",\n[");
    vl_out_json(out, s->name);
#define X(name, value) put_number(out, ",", value);
    COLUMNS(X)
#undef X
    put_waits(out, s);
    vl_out_text(out, "]");
}

void vl_control_figures_json(vl_out_t *out, vl_shm_t *shm)
{
    const apr_array_header_t *sites = vl_status_sites();
    vl_account_snapshot_t *batch = apr_palloc(out->pool, sizeof(*batch) * BATCH);
    apr_int64_t now_us = vl_clock_us(), held_us = 0;
    apr_uint32_t numbers[BATCH];
    int from, i, n;

    put_head(out, shm);
    for (from = 0; from < sites->nelts; from += n) {
        n = sites->nelts - from < BATCH ? sites->nelts - from : BATCH;
        for (i = 0; i < n; i++)
            numbers[i] = vl_conf_get(APR_ARRAY_IDX(sites, from + i,
                                                   const server_rec *))->account;
        if (vl_shm_snapshots(shm, numbers, (apr_size_t)n, batch, &held_us) != APR_SUCCESS)
            break;
        for (i = 0; i < n; i++)
            put_site(out, &batch[i], now_us, !from && !i);
    }
    vl_out_text(out, "\n]}\n");
}
