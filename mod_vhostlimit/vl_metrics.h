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
    X(waiting,      "Waiting",      VL_GAUGE,   "requests waiting for their turn") \
    X(requests,     "Requests",     VL_COUNTER, "requests let in")            \
    X(queued,       "Queued",       VL_COUNTER, "requests let in that had to wait") \
    X(refused,      "Refused",      VL_COUNTER, "requests refused")           \
    X(would_queue,  "Would queue",  VL_COUNTER, "requests DryRun let in that On would have let wait") \
    X(would_refuse, "Would refuse", VL_COUNTER, "requests DryRun let in that On would have refused") \
    X(wait_us,      "Wait us",      VL_COUNTER, "time requests waited before they were let in") \
    X(busy_us,      "Busy us",      VL_COUNTER, "time from admission to the end of the work, of finished requests") \
    X(cpu_us,       "CPU us",       VL_COUNTER, "CPU time of the worker threads, of finished requests") \
    X(backend_us,   "Back end us",  VL_COUNTER, "CPU time of the processes in the vhost's cgroup")

typedef struct vl_metrics_t {
#define X(member, heading, kind, help) apr_uint64_t member;
    VL_METRICS(X)
#undef X
} vl_metrics_t;

/* Waiting times are counted in buckets, four to each doubling, so a percentile
 * is known to a quarter: bucket b < 4 holds b us, the others from
 * vl_metrics_wait_us(b) up to the next one's.  The last holds the rest. */
#define VL_WAIT_BUCKETS 104

static inline unsigned vl_metrics_wait_bucket(apr_uint64_t us)
{
    unsigned log2, bucket;

    if (us < 4)
        return (unsigned)us;
    log2 = 63 - (unsigned)__builtin_clzll(us);
    bucket = 4 * (log2 - 1) + (unsigned)(us >> (log2 - 2) & 3);
    return bucket < VL_WAIT_BUCKETS ? bucket : VL_WAIT_BUCKETS - 1;
}

static inline apr_uint64_t vl_metrics_wait_us(unsigned bucket)
{
    if (bucket < 4)
        return bucket;
    return (apr_uint64_t)(4 + bucket % 4) << (bucket / 4 - 1);
}

/* The least time that so many permille of the waits did not exceed, rounded up
 * to its bucket's end; 0 when nothing was counted. */
static inline apr_uint64_t vl_metrics_wait_percentile(
    const apr_uint64_t waits[VL_WAIT_BUCKETS], unsigned permille)
{
    apr_uint64_t sum = 0, seen = 0;
    unsigned bucket;

    for (bucket = 0; bucket < VL_WAIT_BUCKETS; bucket++)
        sum += waits[bucket];
    for (bucket = 0; bucket < VL_WAIT_BUCKETS && sum; bucket++) {
        seen += waits[bucket];
        if (seen * 1000 >= sum * permille)
            return bucket ? vl_metrics_wait_us(bucket + 1) - 1 : 0;
    }
    return 0;
}

#endif
