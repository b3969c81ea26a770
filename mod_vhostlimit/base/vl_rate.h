/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_RATE_H
#define VL_RATE_H

/* CPU time used during the last minute, in slots of two seconds: a sliding
 * window that nobody needs to move while nothing happens.  Pure; the lock is
 * the caller's. */

#include <apr.h>

#define VL_RATE_SLOT_US 2000000
#define VL_RATE_NOW 1               /* whole slots that "now" looks back */
#define VL_RATE_MINUTE 30
#define VL_RATE_SLOTS (VL_RATE_MINUTE + 1)  /* one is being filled */

typedef struct vl_rate_t {
    apr_int64_t newest;             /* number of the slot being filled */
    apr_uint32_t us[VL_RATE_SLOTS]; /* slot n is us[n % VL_RATE_SLOTS] */
} vl_rate_t;

/* cost_us were used, evenly, during the busy_us that end now. */
void vl_rate_add(vl_rate_t *rate, apr_int64_t now_us, apr_uint64_t busy_us,
                 apr_uint64_t cost_us);
/* Permille of one processor, over so many whole slots and the begun one. */
apr_uint64_t vl_rate_permille(const vl_rate_t *rate, apr_int64_t now_us,
                              unsigned slots);

#endif
