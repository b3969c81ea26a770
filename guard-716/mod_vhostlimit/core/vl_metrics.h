/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_METRICS_H
#define VL_METRICS_H

/* The metrics of an account. One list defines the counters in shared memory, the columns of
 * the status page and their help. Names ending in _us are microseconds, and are seconds in
 * ?prometheus. Counters are updated under the segment lock or atomically (vl_slot.c). */

#include <apr.h>

typedef enum { VL_GAUGE, VL_COUNTER, VL_WORD } vl_metric_kind_e;

#define VL_METRICS(X)                                                         \
    /* member, kind, name in ?prometheus (NULL: none) and label, help */     \
    X(running, VL_GAUGE, "requests_running", "requests that hold a slot")     \
    X(waiting, VL_GAUGE, "requests_waiting", "requests queued for a slot")    \
    X(deferred, VL_GAUGE, "requests_deferred",                                \
      "connections that wait, unread, until the queue is no longer full")     \
    X(requests, VL_COUNTER, "requests_total", "requests admitted")            \
    X(queued, VL_COUNTER, "requests_queued_total",                            \
      "requests admitted after they were queued")                             \
    X(refused, VL_COUNTER, NULL, "requests refused")                          \
    X(refused_concurrency, VL_COUNTER,                                        \
      "requests_refused_total{reason=\"concurrency\"", "requests refused, by reason")\
    X(refused_queue, VL_COUNTER,                                              \
      "requests_refused_total{reason=\"queue\"", "requests refused, by reason")\
    X(refused_timeout, VL_COUNTER,                                            \
      "requests_refused_total{reason=\"timeout\"", "requests refused, by reason")\
    X(reset, VL_COUNTER, "connections_reset_total",                           \
      "connections refused by a TCP reset, without an answer")                \
    X(gone, VL_COUNTER, "connections_gone_total",                             \
      "connections that the client closed while they were queued")            \
    X(would_queue, VL_COUNTER, "requests_would_queue_total",                  \
      "requests admitted by DryRun that On would have queued")                \
    X(would_refuse, VL_COUNTER, "requests_would_refuse_total",                \
      "requests admitted by DryRun that On would have refused or deferred")   \
    X(wait_us, VL_COUNTER, NULL, "time that admitted requests were queued")   \
    X(busy_us, VL_COUNTER, "busy_seconds_total",                              \
      "time from admission to the end, of finished requests")                 \
    X(cpu_us, VL_COUNTER, "cpu_seconds_total",                                \
      "CPU time of Apache's threads, of finished requests")                   \
    X(charged_us, VL_COUNTER, "charged_seconds_total",                        \
      "CPU time charged to the site, back ends included")                     \
    X(backend_us, VL_COUNTER, "backend_cpu_seconds_total",                    \
      "CPU time of the site's back ends on this machine")                       \
    X(database_us, VL_COUNTER, "database_cpu_seconds_total",                  \
      "of these, CPU time of its sessions in MariaDB and PostgreSQL")         \
    X(memory_kills, VL_COUNTER, "memory_kills_total",                         \
      "processes in the site's cgroup that the kernel killed for lack "       \
      "of memory")

typedef struct vl_metrics_t {
#define X(member, kind, prometheus, help) apr_uint64_t member;
    VL_METRICS(X)
#undef X
} vl_metrics_t;

/* Wait times are counted in buckets, four to each doubling, so a percentile is exact to a
 * quarter. Bucket b < 4 holds b us. The others hold from vl_metrics_wait_us(b) up to the
 * start of the next one. The last one holds everything above. */
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

/* Returns the smallest wait time that `permille` of the waits did not exceed, rounded up to
 * the end of its bucket. Returns 0 if nothing was counted. */
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
