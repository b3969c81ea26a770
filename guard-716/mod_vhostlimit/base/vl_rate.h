/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_RATE_H
#define VL_RATE_H

/* CPU time used during the last minute: a sliding window of intervals of two seconds. The
 * window needs no timer: the next call advances it. The functions have no other side effects. The
 * caller must hold the lock that protects the vl_rate_t. */

#include <apr.h>

#define VL_RATE_INTERVAL_US 2000000
#define VL_RATE_NOW 1               /* complete intervals of the current rate */
#define VL_RATE_MINUTE 30           /* complete intervals of one minute */
#define VL_RATE_INTERVALS (VL_RATE_MINUTE + 1)  /* plus the current one */

typedef struct vl_rate_t {
    apr_int64_t newest;             /* number of the current interval */
    apr_uint32_t us[VL_RATE_INTERVALS]; /* interval n is us[n mod VL_RATE_INTERVALS] */
} vl_rate_t;

/* Adds cost_us of CPU time, spread evenly over the busy_us that end now. */
void vl_rate_add(vl_rate_t *rate, apr_int64_t now_us, apr_uint64_t busy_us,
                 apr_uint64_t cost_us);
/* Returns the rate in permille of one processor over the given number of complete intervals
 * plus the current one. */
apr_uint64_t vl_rate_permille(const vl_rate_t *rate, apr_int64_t now_us,
                              unsigned intervals);

#endif
