/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PARK_H
#define VL_PARK_H

/* What waits in this child for a slot, whatever it is: lines of waiters in
 * step with the numbers in vl_slot.h.
 *
 *   _locked    between vl_park_lock() and vl_park_unlock()
 *
 * The one who wants to wait embeds a vl_waiter_t and is told through its
 * done(): once, with the lock held, unless it left before. */

#include "core/vl_slot.h"
#include "core/vl_wait.h"

/* What a request comes with that had to ask for a slot first. */
typedef struct vl_grant_t {
    int holds;                  /* ticket is held */
    vl_ticket_t ticket;
    vl_reason_e refused;        /* is to be refused, with this reason */
    int given_back;             /* it was held, and is owed */
    int occupies;               /* its thread is counted as ticket.account's */
    apr_int64_t waited_us;
    apr_int64_t timeout_us;     /* how long requests of its account may wait */
} vl_grant_t;

/* threads: of the MPM, per child; where there is one, no other picks up the
 * child's grants.  workers: mod_http2's. */
void vl_park_child_init(apr_pool_t *pchild, vl_shm_t *shm,
                        apr_uint32_t accounts, apr_uint32_t threads,
                        apr_uint32_t workers);

void vl_park_lock(void);
void vl_park_unlock(void);

/* A ticket comes back, as vl_slot_end(), and whose turn it is now in this child
 * is told. */
apr_uint64_t vl_park_end(const vl_ticket_t *ticket, const vl_cost_t *cost);

/* The same after vl_slot_pause(). */
void vl_park_pause(const vl_ticket_t *ticket, apr_uint64_t us);

/* waiter: account, since_us, deadline_us, done and may_defer are set.  It may be
 * told before this returns.  When the account's queue is full, a waiter that
 * may_defer is deferred: it waits beyond the queue and enters it, oldest first,
 * as places become free.  Another one is refused then (VL_REASON_QUEUE). */
void vl_park_add_locked(vl_waiter_t *waiter);
/* The same of a waiter that may_defer, unless a slot is free for it: then it returns 1
 * and is not added. */
int vl_park_ask_locked(vl_waiter_t *waiter, vl_ticket_t *ret_ticket);
/* Its turn came and could not be used: it waits again, before the others. */
void vl_park_put_back_locked(vl_waiter_t *waiter);
/* So many more waiters of the account are parked in the MPM, without a thread
 * (vl_waiter_t.in_mpm is set). To be called before vl_park_add_locked(), and
 * with -1 when done() is called or before vl_park_remove_locked(). */
void vl_park_count_parked_locked(apr_uint32_t account, int by);
/* The same of waiters that have a thread: they need no other when they are
 * granted a slot. */
void vl_park_count_with_thread_locked(apr_uint32_t account, int by);
/* It has not been told anything, and no longer wants to know. */
void vl_park_remove_locked(vl_waiter_t *waiter);

/* The calling thread waits for a ticket, or to be refused, for timeout_us at
 * most. It gets neither if it cannot be counted. stream: it is one of mod_http2's
 * threads. Streams wait so when their site is at its own limits, and over HTTP/2
 * where connections cannot be parked; requests on kept connections do where the
 * MPM keeps a thread for each of these (worker, prefork). A turn that was given
 * back comes first, and has waited for waited_us already. Returns 0, at once, if
 * as many threads wait as may: half of the child's, five sixths of mod_http2's,
 * and of those four fifths for one account. */
int vl_park_wait(apr_uint32_t account, int stream, apr_int64_t timeout_us,
                vl_grant_t *grant);

/* Picks up this child's grants and tells those whose turn it is. */
void vl_park_take_locked(void);
/* Deferred waiters enter the queues that have places for them.  The acceptor
 * calls it when another child has woken this one, and now and then. */
void vl_park_refill_locked(void);
/* Refuses the waiters whose deadline has passed: with VL_REASON_QUEUE those that
 * were ever deferred, with VL_REASON_TIMEOUT the others.  Of those that may_defer
 * at most `most`; the others stay until the next call.  Returns how many. */
apr_uint32_t vl_park_expire_locked(apr_int64_t now_us, apr_uint32_t most);
/* 1: a waiter with this done() is queued, or waits beyond the queue. */
int vl_park_has_locked(vl_waiter_done_fn done);
/* Takes out a waiter with this done(), queued ones first; with `queued` set no
 * other.  NULL: none is left. */
vl_waiter_t *vl_park_evict_locked(vl_waiter_done_fn done, int queued);
/* Of the account with most waiters here the newest with this done(), and how many
 * waiters the account has.  It stays where it is.  NULL: there is none. */
vl_waiter_t *vl_park_newest_of_longest_locked(vl_waiter_done_fn done,
                                              apr_uint32_t *ret_count);

#endif
