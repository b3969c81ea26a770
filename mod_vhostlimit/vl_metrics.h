/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_METRICS_H
#define VL_METRICS_H

/* What is counted per account: one list makes the cells in shared memory, the
 * columns of the status page and their help.  Units are in the names. */

#include <apr.h>

typedef enum { VL_GAUGE, VL_COUNTER } vl_metric_kind_e;

#define VL_METRICS(X)                                                         \
    /* member       heading         kind        help */                       \
    X(running,      "Running",      VL_GAUGE,   "requests being worked on")   \
    X(requests,     "Requests",     VL_COUNTER, "requests let in")            \
    X(refused,      "Refused",      VL_COUNTER, "requests refused")           \
    X(would_refuse, "Would refuse", VL_COUNTER, "requests DryRun let in that On would have refused") \
    X(busy_us,      "Busy us",      VL_COUNTER, "time from admission to the end of the work, of finished requests") \
    X(cpu_us,       "CPU us",       VL_COUNTER, "CPU time of the worker threads, of finished requests")

typedef struct vl_metrics_t {
#define X(member, heading, kind, help) apr_uint64_t member;
    VL_METRICS(X)
#undef X
} vl_metrics_t;

#endif
