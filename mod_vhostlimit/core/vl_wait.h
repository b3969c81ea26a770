/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_WAIT_H
#define VL_WAIT_H

/* Who waits in this child: one line per account, first come first served.
 * Lock: the caller's.  The waiters are the caller's memory. */

#include <apr_pools.h>
#include <apr_ring.h>

#include "core/vl_queue.h"
#include "core/vl_slot.h"

typedef struct vl_waiter_t vl_waiter_t;

/* Its turn has come, with a ticket; or it is refused (ticket NULL), or goes on
 * without one because it cannot be counted (VL_REASON_NONE).  It stands in no
 * line any more. */
typedef void (*vl_waiter_done_fn)(vl_waiter_t *waiter,
                                  const vl_ticket_t *ticket,
                                  vl_reason_e refused);

struct vl_waiter_t {
    APR_RING_ENTRY(vl_waiter_t) link;
    apr_uint32_t account;
    apr_int64_t since_us;           /* when it came */
    apr_int64_t deadline_us;        /* when it has waited too long */
    vl_waiter_done_fn done;
    int in_mpm;                     /* the MPM has it already, and need not
                                     * accept it */
    int may_defer;                  /* beyond a full queue it waits on */
    int deferred;                   /* it waits beyond the queue now */
    int was_deferred;               /* the queue was full when it came */
};

typedef struct vl_wait_t vl_wait_t;

vl_wait_t *vl_wait_create(apr_pool_t *p, apr_uint32_t accounts);

/* Behind those of its account that came before it, by since_us. */
void vl_wait_add(vl_wait_t *w, vl_waiter_t *waiter);
/* Before all others of its account. */
void vl_wait_add_first(vl_wait_t *w, vl_waiter_t *waiter);
void vl_wait_remove(vl_wait_t *w, vl_waiter_t *waiter);
/* The first in the account's line, NULL: nobody; _pop takes it out. */
vl_waiter_t *vl_wait_first(const vl_wait_t *w, apr_uint32_t account);
vl_waiter_t *vl_wait_pop(vl_wait_t *w, apr_uint32_t account);
/* The first of the account that is in the MPM; stays in line. */
vl_waiter_t *vl_wait_first_in_mpm(const vl_wait_t *w, apr_uint32_t account);
/* A waiter whose deadline has passed; it stays in line.  Calls look at the
 * accounts in turn.  NULL: no deadline has passed. */
vl_waiter_t *vl_wait_expired(vl_wait_t *w, apr_int64_t now_us);
/* Somebody with this done(); stays in line.  NULL: nobody. */
vl_waiter_t *vl_wait_any(const vl_wait_t *w, vl_waiter_done_fn done);
/* An account of the longest line; VL_NO_FLOW: no line has a waiter. */
apr_uint32_t vl_wait_longest(const vl_wait_t *w);
/* The newest in the account's line with this done(); it stays in line. */
vl_waiter_t *vl_wait_newest_with(const vl_wait_t *w, apr_uint32_t account,
                                 vl_waiter_done_fn done);
/* Calls fn once for each account that has a waiter.  fn may add and remove
 * waiters of that account. */
void vl_wait_each_account(vl_wait_t *w, void (*fn)(apr_uint32_t account));
/* Waiters in all lines, and in one. */
apr_uint32_t vl_wait_count(const vl_wait_t *w);
apr_uint32_t vl_wait_count_of(const vl_wait_t *w, apr_uint32_t account);

#endif
