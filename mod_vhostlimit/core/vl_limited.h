/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_LIMITED_H
#define VL_LIMITED_H

/* When an account begins and ceases to be limited, from looks about a second
 * apart.  Pure: one step per look; the lock is the caller's.
 *
 * It is limited while requests are refused, or while more wait, at two looks
 * one after the other, than it gets through in a tenth of a second: a short
 * wait now and then is what sharing a server means.  It is limited no more
 * once that has not been so for VL_LIMITED_QUIET_US, which also lies between
 * an end and the next beginning: a line in the log every ten seconds at most. */

#include <apr.h>

#define VL_LIMITED_LOOK_US 1000000
#define VL_LIMITED_QUIET_US 10000000

typedef struct vl_limited_look_t {
    apr_int64_t at_us;
    apr_uint64_t waiting;
    apr_uint64_t requests, queued, refused;     /* counters */
} vl_limited_look_t;

typedef struct vl_limited_t {
    vl_limited_look_t last;     /* at_us 0: none yet */
    int slow;                   /* too many waited at it */
    apr_int64_t since_us;       /* 0: not limited */
    apr_int64_t seen_us;        /* last time it was */
    apr_int64_t ended_us;
    vl_limited_look_t before;   /* the look before it began */
} vl_limited_t;

typedef enum {
    VL_LIMITED_AS_BEFORE,
    VL_LIMITED_BEGINS,
    VL_LIMITED_ENDS             /* state->since_us and ->before still say when
                                 * it began; vl_limited_clear() comes next */
} vl_limited_e;

vl_limited_e vl_limited_step(vl_limited_t *state,
                             const vl_limited_look_t *look);
void vl_limited_clear(vl_limited_t *state);

#endif
