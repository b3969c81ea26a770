/* SPDX-License-Identifier: Apache-2.0 */
/* The data of the page. It is copied from shared memory in small batches, then converted to
 * the numbers that the formats show. */
#include "config.h"

#include "status/vl_status.h"

#include <ap_mpm.h>
#include <apr_strings.h>

#include "accept/vl_accept.h"
#include "base/vl_clock.h"
#include "config/vl_conf.h"
#include "base/vl_private.h"
#include "core/vl_shm_child.h"
#include "core/vl_slot.h"
#include "status/vl_modules.h"
#include "status/vl_status_int.h"

/* Accounts that are copied while the segment lock is held once. */
#define BATCH 64

static const apr_array_header_t *servers;   /* one server for each account */
static vl_shm_t *accounts;
static const vl_cgroup_t *cgroup;

const vl_column_t vl_status_columns[] = {
#define X(member, kind, prometheus, help) \
    { #member, kind, prometheus, help, APR_OFFSETOF(vl_row_t, metrics.member) },
    VL_METRICS(X)
#undef X
#define X(member, kind, prometheus, help) \
    { #member, kind, prometheus, help, APR_OFFSETOF(vl_row_t, member) },
    VL_DERIVED(X)
#undef X
    { NULL }
};

/* Returns the keyword for the state of the vhost. */
static const char *state_of(const vl_row_t *row)
{
    const vl_metrics_t *metrics = &row->metrics;

    if (row->limits.concurrency && metrics->running >= row->limits.concurrency)
        return "capped";
    if (metrics->waiting)
        return "waiting";
    return metrics->running ? "running" : "idle";
}

/* Returns the keyword for the way in which requests of the vhost wait. */
static const char *method_of(const vl_row_t *row)
{
    if (row->limits.mode != VL_MODE_ON || !row->limits.queue)
        return "none";
    return vl_accept_works() ? "socket" : "thread";
}

/* Returns the keyword for the source of the vhost's cost. */
static const char *cost_of(vl_cost_by_e by)
{
    return by == VL_COST_CGROUP ? "cgroup"
           : by == VL_COST_CLOCK ? "clock" : "thread";
}

/* Computes the percentiles and the cumulative histogram of the waiting times. */
static void fill_waits(const vl_account_snapshot_t *from, vl_row_t *row)
{
    unsigned b, step;

    row->wait_p50_us = vl_metrics_wait_percentile(from->waits, 500);
    row->wait_p99_us = vl_metrics_wait_percentile(from->waits, 990);
    memset(row->waits, 0, sizeof(row->waits));
    for (b = 0; b < VL_WAIT_BUCKETS; b++) {
        for (step = 0; from->waits[b] && step < VL_WAIT_STEPS; step++) {
            if (vl_metrics_wait_us(b) < VL_WAIT_STEP_US(step))
                row->waits[step] += from->waits[b];
        }
    }
}

static void fill_row(apr_pool_t *p, const vl_account_snapshot_t *from,
                     apr_int64_t now, vl_row_t *row)
{
    memset(row, 0, sizeof(*row));
    row->name = apr_pstrdup(p, from->name);
    row->cgroup = vl_cgroup_account_path(cgroup, p, row->name);
    row->limits = from->limits;
    row->override = from->override;
    row->metrics = from->metrics;
    row->state = state_of(row);
    row->method = method_of(row);
    row->cost = cost_of(from->cost_by);
    if (!row->metrics.requests && !row->metrics.refused)
        return;
    /* At least 1 while the vhost is limited. */
    if (from->limited_since_us)
        row->limited_s = 1 + (apr_uint64_t)
            apr_time_sec(now > from->limited_since_us
                         ? now - from->limited_since_us : 0);
    row->cpu_now_permille = vl_rate_permille(&from->rate, now, VL_RATE_NOW);
    row->cpu_minute_permille = vl_rate_permille(&from->rate, now,
                                                VL_RATE_MINUTE);
    row->service_us = from->service_us;
    fill_waits(from, row);
}

/* Adds the row to the sums of the page. */
static void add_up(vl_page_t *page, const vl_row_t *row)
{
    const vl_column_t *column;

    for (column = vl_status_columns; column->key; column++)
        *(apr_uint64_t *)((char *)&page->sum + column->offset)
            += vl_status_cell(row, column);
    page->limited += row->limited_s > 0;
}

/* Returns the numbers of the accounts that the page shows. */
static apr_uint32_t *select_accounts(apr_pool_t *p, const server_rec *only,
                                     int *ret_n)
{
    apr_uint32_t *selected = apr_palloc(p, sizeof(*selected)
                                             * (servers->nelts + 1));
    int i, n = 0;

    if (only && vl_conf_get(only)->mode != VL_MODE_OFF)
        selected[n++] = vl_conf_get(only)->account;
    for (i = 0; !only && i < servers->nelts; i++)
        selected[n++] = vl_conf_get(APR_ARRAY_IDX(servers, i,
                                                  server_rec *))->account;
    *ret_n = n;
    return selected;
}

static void gather_rows(apr_pool_t *p, vl_page_t *page,
                        const server_rec *only)
{
    vl_account_snapshot_t *batch = apr_palloc(p, sizeof(*batch) * BATCH);
    apr_int64_t now = vl_clock_us();
    int i, from, selected_n;
    const apr_uint32_t *selected = select_accounts(p, only, &selected_n);

    page->rows = apr_palloc(p, sizeof(vl_row_t) * (selected_n + 1));
    for (from = 0; from < selected_n; from += BATCH) {
        int n = selected_n - from < BATCH ? selected_n - from : BATCH;

        if (vl_shm_snapshots(accounts, selected + from, n, batch,
                             &page->held_us) != APR_SUCCESS)
            return;
        for (i = 0; i < n; i++) {
            fill_row(p, &batch[i], now, &page->rows[page->nrows]);
            add_up(page, &page->rows[page->nrows++]);
        }
    }
}

/* Returns MaxRequestWorkers. */
static apr_uint32_t count_workers(void)
{
    int daemons = 1, threads = 1;

    ap_mpm_query(AP_MPMQ_MAX_DAEMONS, &daemons);
    ap_mpm_query(AP_MPMQ_MAX_THREADS, &threads);
    return (apr_uint32_t)daemons * (apr_uint32_t)(threads ? threads : 1);
}

const vl_page_t *vl_status_gather(apr_pool_t *p, const server_rec *only)
{
    vl_page_t *page = apr_pcalloc(p, sizeof(*page));

    page->mpm = ap_show_mpm();
    page->started_us = vl_shm_created_us(accounts);
    page->now_us = apr_time_now();
    page->uptime_s = apr_time_sec(page->now_us - page->started_us);
    page->children = vl_shm_child_count(accounts);
    page->workers = count_workers();
    page->slots = vl_slot_count(accounts);
    page->processors = vl_shm_processors(accounts);
    page->backend = vl_cgroup_backend(cgroup);
    page->tree = vl_cgroup_path(cgroup);
    page->reason = vl_cgroup_reason(cgroup);
    page->outside = vl_modules_outside(cgroup);
    page->is_single = only != NULL;
    gather_rows(p, page, only);
    return page;
}

void vl_status_post_config(const apr_array_header_t *list, vl_shm_t *shm,
                           const vl_cgroup_t *cg)
{
    servers = list;
    accounts = shm;
    cgroup = cg;
}
