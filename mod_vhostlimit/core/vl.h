/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_H
#define VL_H

/* Words every room shares.  The core (libvlcore in Makefile.am) knows APR and
 * the kernel, never httpd. */

#include <apr.h>

typedef enum {
    VL_MODE_OFF,
    VL_MODE_ON,
    VL_MODE_DRYRUN          /* decide and count, carry nothing out */
} vl_mode_e;

typedef enum {
    VL_PASS,
    VL_REFUSE
} vl_verdict_e;

typedef enum {
    VL_REASON_NONE,
    VL_REASON_CONCURRENCY,  /* as many running as VhostLimitConcurrency */
    VL_REASON_QUEUE,        /* as many waiting as VhostLimitQueue */
    VL_REASON_TIMEOUT,      /* waited as long as VhostLimitQueue lets */
    VL_REASON_ERROR,        /* could not be counted, VhostLimitOnError closed */
    VL_REASON_GONE          /* its client has gone while it waited */
} vl_reason_e;

/* How the cost of a request that a back end worked on is known, beyond the CPU
 * time of its thread. */
typedef enum {
    VL_COST_THREAD,         /* there was none, so far */
    VL_COST_CLOCK,          /* by the time it took, see vl_charge.c */
    VL_COST_CGROUP          /* measured: the account's group tells */
} vl_cost_by_e;

/* What one account may do.  Lives in shared memory, so that a change reaches
 * every child, of old generations too. */
typedef struct vl_limits_t {
    vl_mode_e mode;
    apr_uint32_t weight;            /* 1 to 10000 */
    apr_uint32_t concurrency;       /* most requests running, 0 = no limit */
    apr_uint32_t queue;             /* most requests waiting */
    apr_uint32_t cpu;               /* % of one processor, 0 = no cap */
} vl_limits_t;

/* A moving average that forgets by 1/8 a sample, as TCP's smoothed round-trip
 * time does (RFC 6298, alpha). */
static inline apr_uint32_t vl_average(apr_uint32_t average,
                                      apr_uint64_t sample)
{
    if (sample > APR_UINT32_MAX)
        sample = APR_UINT32_MAX;
    return (apr_uint32_t)(((apr_uint64_t)average * 7 + sample) / 8);
}

/* Longest account name with its terminating NUL: a DNS name (253), a port and
 * a "#n" for vhosts of the same name. */
#define VL_NAME_SIZE 280

#endif
