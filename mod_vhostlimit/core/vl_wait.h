/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_WAIT_H
#define VL_WAIT_H

/* Queues of waiters in this child process: one FIFO per account. Each FIFO is ordered by
 * arrival. The waiters are the caller's memory. Lock: the caller's (the park lock, see
 * vl_park.h). */

#include <apr_pools.h>
#include <apr_ring.h>

#include "core/vl_queue.h"
#include "core/vl_slot.h"

typedef struct vl_waiter_t vl_waiter_t;

/* Called after the waiter was removed from its queue. With a ticket it was granted a slot.
 * Without one (NULL) it is refused with the reason `refused`; VL_REASON_NONE means that it
 * goes on without a slot, because it could not be counted. */
typedef void (*vl_waiter_done_fn)(vl_waiter_t *waiter,
                                  const vl_ticket_t *ticket,
                                  vl_reason_e refused);

struct vl_waiter_t {
    APR_RING_ENTRY(vl_waiter_t) link;
    apr_uint32_t account;
    apr_int64_t since_us;           /* arrival */
    apr_int64_t deadline_us;        /* when it is refused */
    vl_waiter_done_fn done;
    int in_mpm;                     /* 1: the MPM already has its connection and need not
                                     * accept it */
    int may_defer;                  /* 1: if the queue is full, it is deferred */
    int deferred;                   /* 1: it waits beyond the queue now */
    int was_deferred;               /* 1: the queue was full when it arrived */
};

typedef struct vl_wait_t vl_wait_t;

/* Creates the queues in p. Aborts if there is no memory. */
vl_wait_t *vl_wait_create(apr_pool_t *p, apr_uint32_t accounts);

/* Adds a waiter behind those of its account that arrived earlier (since_us). */
void vl_wait_add(vl_wait_t *w, vl_waiter_t *waiter);
/* Adds a waiter at the head of its account's queue. */
void vl_wait_add_first(vl_wait_t *w, vl_waiter_t *waiter);
/* Removes a queued waiter. */
void vl_wait_remove(vl_wait_t *w, vl_waiter_t *waiter);
/* Return the first waiter of the account, or NULL. vl_wait_pop() removes it. */
vl_waiter_t *vl_wait_first(const vl_wait_t *w, apr_uint32_t account);
vl_waiter_t *vl_wait_pop(vl_wait_t *w, apr_uint32_t account);
/* Returns the first waiter of the account that is in the MPM, or NULL. It stays queued. */
vl_waiter_t *vl_wait_first_in_mpm(const vl_wait_t *w, apr_uint32_t account);
/* Returns a waiter whose deadline has passed, or NULL. It stays queued. Successive calls
 * rotate through the accounts. */
vl_waiter_t *vl_wait_expired(vl_wait_t *w, apr_int64_t now_us);
/* Returns any waiter with this done(), or NULL. It stays queued. */
vl_waiter_t *vl_wait_any(const vl_wait_t *w, vl_waiter_done_fn done);
/* Returns the account with the longest queue, or VL_NO_FLOW if all queues are empty. */
apr_uint32_t vl_wait_longest(const vl_wait_t *w);
/* Returns the newest waiter of the account with this done(), or NULL. It stays queued. */
vl_waiter_t *vl_wait_newest_with(const vl_wait_t *w, apr_uint32_t account,
                                 vl_waiter_done_fn done);
/* Calls fn once for each account that has a waiter. fn may add and remove waiters of that
 * account. */
void vl_wait_each_account(vl_wait_t *w, void (*fn)(apr_uint32_t account));
/* Return the number of waiters in all queues, and in one. */
apr_uint32_t vl_wait_count(const vl_wait_t *w);
apr_uint32_t vl_wait_count_of(const vl_wait_t *w, apr_uint32_t account);

#endif
