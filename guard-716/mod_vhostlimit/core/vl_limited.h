/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_LIMITED_H
#define VL_LIMITED_H

/* Detects when an account begins and ceases to be limited, from samples about a second
 * apart, and whether the kernel has killed processes of it for memory.
 *
 * An account is limited while requests are refused, or while at two successive samples more
 * requests are queued than it completes in a tenth of a second. A short wait is
 * normal on a shared server. It ceases to be limited when neither has been true for
 * VL_LIMITED_QUIET_US. That time also separates an end from the next beginning, so at
 * most one message is logged every ten seconds.
 *
 * This file owns account_t.limited, the reported part of the kills, and head.limited_at.
 * vl_limited_step() and vl_limited_clear() are pure, one step per sample. The other
 * functions take the segment lock. Any process may call them, several times a second; when a
 * check is due, only the first caller makes it. vl_notice.c logs the events. */

#include "core/vl_shm.h"

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

typedef struct vl_limited_event_t {
    char name[VL_NAME_SIZE];
    vl_limited_e what;
    apr_uint64_t killed;            /* number of kills since the last event with kills,
                                     * which is at least VL_LIMITED_QUIET_US old */
    vl_limits_t limits;
    vl_metrics_t metrics;           /* current values */
    vl_limited_look_t before;       /* the last check before the account was limited */
    apr_int64_t since_us;           /* time at which the account became limited */
    apr_int64_t seen_us;            /* last check at which it was limited */
} vl_limited_event_t;

/* Returns 1 if a check of all accounts is due and the caller must make it. Takes the
 * segment lock. */
int vl_limited_is_due(vl_shm_t *shm, apr_int64_t now_us);
/* Checks a batch of accounts from the *account-th on and advances *account; it is 0 again when all
 * accounts have been checked. Returns the number of events, at most VL_LIMITED_EVENTS. Takes
 * the segment lock. */
#define VL_LIMITED_EVENTS 16
apr_size_t vl_limited_check(vl_shm_t *shm, apr_int64_t now_us,
                         apr_uint32_t *account,
                         vl_limited_event_t ret_events[VL_LIMITED_EVENTS]);

#endif
