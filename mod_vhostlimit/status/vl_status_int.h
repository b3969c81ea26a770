/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_STATUS_INT_H
#define VL_STATUS_INT_H

/* The facts of a status page, gathered once, and the formats that write them.
 * For the vl_status rooms only. */

#include "core/vl_metrics.h"
#include "base/vl_out.h"
#include "core/vl_shm.h"

/* Raised when a key of ?json or ?auto is renamed or changes its meaning. */
#define VL_STATUS_SCHEMA 1

/* The le of ?prometheus' histogram: 4^5 us (1 ms) to 4^13 us (67 s). */
#define VL_WAIT_STEPS 9
#define VL_WAIT_STEP_US(i) ((apr_uint64_t)1 << (10 + 2 * (i)))

/* Numbers of a vhost that are not counted but made of what is. */
#define VL_DERIVED(X)                                                         \
    X(limited_s, VL_GAUGE, "limited_seconds",                                 \
      "how long it has been limited, 0 when it is not")                       \
    X(cpu_now_permille, VL_GAUGE, NULL,                                       \
      "CPU time charged over the last 2 to 4 s, of one processor")            \
    X(cpu_minute_permille, VL_GAUGE, NULL,                                    \
      "CPU time charged over the last minute, of one processor")              \
    X(service_us, VL_GAUGE, NULL,                                             \
      "time from admission to the end of the work, moving average")           \
    X(wait_p50_us, VL_GAUGE, NULL, "half of the waits were no longer")        \
    X(wait_p99_us, VL_GAUGE, NULL, "99 % of the waits were no longer")

typedef struct vl_row_t {
    const char *name;
    const char *cgroup;             /* path from the hierarchy's root */
    const char *state, *method, *cost;  /* words, see docs/operating.md */
    vl_limits_t limits;
    vl_override_t override;
    vl_metrics_t metrics;
#define X(member, kind, prometheus, help) apr_uint64_t member;
    VL_DERIVED(X)
#undef X
    apr_uint64_t waits[VL_WAIT_STEPS];  /* no longer than VL_WAIT_STEP_US */
} vl_row_t;

typedef struct vl_column_t {
    const char *key;
    vl_metric_kind_e kind;
    const char *prometheus;         /* NULL: not by itself */
    const char *help;
    apr_size_t offset;              /* in vl_row_t */
} vl_column_t;

/* All numbers of a row; ends with key NULL. */
extern const vl_column_t vl_status_columns[];

static inline apr_uint64_t vl_status_cell(const vl_row_t *row,
                                          const vl_column_t *column)
{
    return *(const apr_uint64_t *)((const char *)row + column->offset);
}

typedef struct vl_page_t {
    const char *mpm;
    apr_int64_t started_us, now_us, uptime_s;
    apr_uint32_t children, workers, slots, processors;
    const char *backend, *tree, *reason;    /* see vl_cgroup.h */
    const char *outside;            /* a module whose programs are in no vhost's
                                     * group, or "" */
    apr_int64_t held_us;            /* the lock, while the rows were copied */
    int alone;                      /* ?me */
    vl_row_t *rows;
    int nrows;
    vl_row_t sum;                   /* of the metrics and the CPU times */
    int limited;                    /* vhosts that are */
} vl_page_t;

/* All accounts, or only that of one vhost. */
const vl_page_t *vl_status_gather(apr_pool_t *p, const server_rec *only);

typedef void (*vl_status_format_fn)(vl_out_t *out, const vl_page_t *page);

void vl_status_html(vl_out_t *out, const vl_page_t *page);
void vl_status_auto(vl_out_t *out, const vl_page_t *page);
void vl_status_json(vl_out_t *out, const vl_page_t *page);
void vl_status_prom(vl_out_t *out, const vl_page_t *page);

/* mod_status' page. */
void vl_status_server_register(apr_pool_t *p);

#endif
