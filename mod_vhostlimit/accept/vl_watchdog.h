/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_WATCHDOG_H
#define VL_WATCHDOG_H

/* The watchdog thread takes over timers when the acceptor of its child is stalled, for
 * example while it writes to a log that is not read, or opens a file on a file system
 * that does not answer. It dispatches queued connections that are granted slots and
 * refuses those with expired deadlines.
 * Invariant: it opens, reads and logs nothing, so it cannot stall where the acceptor
 * does.
 * Owns its thread and the time of the last sign of life; the latter is atomic.
 * vl_accept.c is the caller. */

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
