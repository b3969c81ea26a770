/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_WATCHDOG_H
#define VL_WATCHDOG_H

/* The watchdog thread handles timers while the acceptor of its child is stalled, for
 * example in a write to a log that is not read, or on a file system that does not
 * answer.  It passes connections that are granted slots to the MPM, and refuses
 * connections whose deadline has passed.
 *
 * It opens, reads and logs nothing, so it cannot stall where the acceptor does.
 * Owns its thread and the time of the last sign of life, which is atomic.  There is no
 * other lock to hold.  vl_accept.c is the caller. */

#include <apr_pools.h>

/* while_stalled: called by the watchdog ten times a second while the acceptor is
 * stalled, concurrently with it. If no thread can be created the child has no
 * watchdog. */
void vl_watchdog_start(apr_pool_t *pchild, void (*while_stalled)(apr_int64_t now_us));
/* The acceptor is alive; with _rest, no sign of life is expected any more. */
void vl_watchdog_alive(void);
void vl_watchdog_rest(void);
/* Returns when the thread has ended. */
void vl_watchdog_stop(void);

#endif
