/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_WATCH_H
#define VL_WATCH_H

/* Who begins and ceases to be limited, and whose processes were killed for
 * memory, over all children.  Any process may
 * look; only the first to come when a look is due does. */

#include "core/vl_limited.h"
#include "core/vl_shm.h"

typedef struct vl_watch_event_t {
    char name[VL_NAME_SIZE];
    vl_limited_e what;
    apr_uint64_t killed;            /* so many since that was last told, which
                                     * was VL_LIMITED_QUIET_US ago or more */
    vl_limits_t limits;
    vl_metrics_t metrics;           /* now */
    vl_limited_look_t before;       /* the last look before it began */
    apr_int64_t since_us;           /* when it began ... */
    apr_int64_t seen_us;            /* ... and was last seen */
} vl_watch_event_t;

/* A look is due, and it is the caller's. */
int vl_watch_due(vl_shm_t *shm, apr_int64_t now_us);
/* Looks at some accounts from *account on and moves it behind them.  Returns
 * how many events there were among them, at most VL_WATCH_EVENTS; the look is
 * over when *account is 0 again. */
#define VL_WATCH_EVENTS 16
apr_size_t vl_watch_look(vl_shm_t *shm, apr_int64_t now_us,
                         apr_uint32_t *account,
                         vl_watch_event_t ret_events[VL_WATCH_EVENTS]);

#endif
