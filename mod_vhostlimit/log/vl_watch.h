/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_WATCH_H
#define VL_WATCH_H

/* Finds the accounts that become limited or are no longer limited, and the accounts of
 * which the kernel has killed processes for memory.  The state is in shared memory and
 * covers all child processes.  Any process may call the functions; when a check is due,
 * only the first caller makes it.  Both functions take the segment lock. */

#include "core/vl_limited.h"
#include "core/vl_shm.h"

typedef struct vl_watch_event_t {
    char name[VL_NAME_SIZE];
    vl_limited_e what;
    apr_uint64_t killed;            /* number of kills since the last event with kills,
                                     * which is at least VL_LIMITED_QUIET_US old */
    vl_limits_t limits;
    vl_metrics_t metrics;           /* current values */
    vl_limited_look_t before;       /* the last check before the account was limited */
    apr_int64_t since_us;           /* time at which the account became limited */
    apr_int64_t seen_us;            /* last check at which it was limited */
} vl_watch_event_t;

/* Returns 1 if a check is due and the caller must make it. */
int vl_watch_due(vl_shm_t *shm, apr_int64_t now_us);
/* Checks a batch of accounts from *account on and advances *account; it is 0 again when all
 * accounts have been checked.  Returns the number of events, at most VL_WATCH_EVENTS. */
#define VL_WATCH_EVENTS 16
apr_size_t vl_watch_look(vl_shm_t *shm, apr_int64_t now_us,
                         apr_uint32_t *account,
                         vl_watch_event_t ret_events[VL_WATCH_EVENTS]);

#endif
