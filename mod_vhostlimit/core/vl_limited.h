/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_LIMITED_H
#define VL_LIMITED_H

/* Detects when an account begins and ceases to be limited, from samples about a second
 * apart. Pure: one step per sample. Lock: the caller's.
 *
 * An account is limited while requests are refused, or while at two successive samples more
 * requests are queued than it completes in a tenth of a second. A short wait is
 * normal on a shared server. It ceases to be limited when neither has been true for
 * VL_LIMITED_QUIET_US. That time also separates an end from the next beginning, so at
 * most one message is logged every ten seconds. */

#include <apr.h>

#define VL_LIMITED_LOOK_US 1000000
#define VL_LIMITED_QUIET_US 10000000

typedef struct vl_limited_look_t {
    apr_int64_t at_us;
    apr_uint64_t waiting;
    apr_uint64_t requests, queued, refused;     /* counters */
} vl_limited_look_t;

typedef struct vl_limited_t {
    vl_limited_look_t last;     /* at_us 0: no sample yet */
    int slow;                   /* 1: too many were queued at it */
    apr_int64_t since_us;       /* 0: not limited */
    apr_int64_t seen_us;        /* last time the account was limited */
    apr_int64_t ended_us;
    vl_limited_look_t before;   /* the sample before it began */
} vl_limited_t;

typedef enum {
    VL_LIMITED_AS_BEFORE,
    VL_LIMITED_BEGINS,
    VL_LIMITED_ENDS             /* since_us and before still describe the beginning; call
                                 * vl_limited_clear() next */
} vl_limited_e;

/* Evaluates one sample. Returns what changed. */
vl_limited_e vl_limited_step(vl_limited_t *state,
                             const vl_limited_look_t *look);
/* Records the end that vl_limited_step() has returned. */
void vl_limited_clear(vl_limited_t *state);

#endif
