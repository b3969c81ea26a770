/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_WATCHDOG_H
#define VL_WATCHDOG_H

/* A thread that sleeps as long as the acceptor of its child gives a sign of life.
 * When that hangs (in a log that nobody reads, a file system that does not answer),
 * the deputy keeps time in its place: whose turn comes goes to the MPM, and who has
 * waited too long is refused.  It does nothing that the acceptor may be hanging in:
 * it opens, reads and logs nothing. */

#include <apr_pools.h>

/* stand_in: called ten times a second while the acceptor hangs, beside it.  Where
 * no thread is to be had the child does without. */
void vl_watchdog_start(apr_pool_t *pchild, void (*stand_in)(apr_int64_t now_us));
/* The acceptor is alive, or (_rest) is not missed from now on. */
void vl_watchdog_alive(void);
void vl_watchdog_rest(void);
/* Returns when it has ended. */
void vl_watchdog_stop(void);

#endif
