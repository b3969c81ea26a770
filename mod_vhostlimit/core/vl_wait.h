/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_WAIT_H
#define VL_WAIT_H

/* Queues of waiters in this child process, one per account. A queue is ordered by class, by
 * band and by client (vl_clients.h); the waiters of one client are in the order of their
 * arrival. Where a site does not share by client, all its waiters are of one client. The
 * order of arrival of all waiters of an account is kept too, because deadlines follow it.
 *
 * Late waiters. If clients of the site give up, a waiter that has waited for nearly as long
 * as they did is late: its client would probably be gone before the answer. It stays queued,
 * but those that are in time go first, and of 16 grants one goes to a client whose waiters
 * are all late. Without this, a site that gets more requests than it can answer would
 * answer nearly all of them too late. Each late waiter is counted once (vl_inner_t.late).
 *
 * The waiters are the caller's memory. A queue that has no waiter uses no memory but one
 * pointer. Lock: the caller's (the waiters lock, see vl_waiters.h). */

#include <apr_pools.h>
#include <apr_ring.h>

#include "core/vl_clients.h"
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
    APR_RING_ENTRY(vl_waiter_t) link;           /* of the account, by arrival */
    APR_RING_ENTRY(vl_waiter_t) client_link;    /* of the client, by arrival */
    struct wait_client_t *client_queue;    /* its client's queue */
    vl_client_id_t client;          /* its client; all zero: the site does not share
                                     * by client */
    apr_uint32_t account;
    apr_int64_t since_us;           /* arrival */
    apr_int64_t deadline_us;        /* when it is refused */
    vl_waiter_done_fn done;
    int in_mpm;                     /* 1: the MPM already has its connection and need not
                                     * accept it */
    int may_defer;                  /* 1: if the queue is full, it is deferred */
    int was_deferred;               /* 1: the queue was full when it arrived */
    int was_late;                   /* 1: counted as late */
};

typedef struct vl_wait_t vl_wait_t;

/* Creates the queues in p. Aborts if there is no memory. clients: the table of clients.
 * inner: returns the levels of an account. waiting: returns what this process tells of its
 * waiters of an account, or NULL if it tells nothing. */
vl_wait_t *vl_wait_create(apr_pool_t *p, apr_uint32_t accounts,
                          const vl_clients_t *clients,
                          vl_inner_t *(*inner)(apr_uint32_t account),
                          vl_waiting_t *(*waiting)(apr_uint32_t account));

/* Adds a waiter behind those of its client that arrived earlier (since_us). */
void vl_wait_add(vl_wait_t *w, vl_waiter_t *waiter);
/* Adds a waiter at the head of its client's queue. */
void vl_wait_add_first(vl_wait_t *w, vl_waiter_t *waiter);
/* Removes a queued waiter. */
void vl_wait_remove(vl_wait_t *w, vl_waiter_t *waiter);
/* Returns the waiter of the account that is next, or NULL. It stays queued. *ret_first: what
 * the other children are told of it; ret_first may be NULL. */
vl_waiter_t *vl_wait_first(vl_wait_t *w, apr_uint32_t account, apr_int64_t now_us,
                           vl_first_t *ret_first);
/* Returns the same waiter and removes it. *ret_joined, *ret_others: see vl_clients_begin(). */
vl_waiter_t *vl_wait_pop(vl_wait_t *w, apr_uint32_t account, apr_int64_t now_us,
                         apr_uint64_t *ret_joined, apr_uint32_t *ret_others);
/* Returns the waiter of the account that is in the MPM and came first, or NULL. It stays
 * queued. */
vl_waiter_t *vl_wait_first_in_mpm(const vl_wait_t *w, apr_uint32_t account);
/* Returns a waiter whose deadline has passed, or NULL. It stays queued. Successive calls
 * rotate through the accounts. */
vl_waiter_t *vl_wait_expired(vl_wait_t *w, apr_int64_t now_us);
/* Returns any waiter with this done(), or NULL. It stays queued. may: NULL, or returns 0 for
 * accounts that are left out. */
vl_waiter_t *vl_wait_any(const vl_wait_t *w, vl_waiter_done_fn done,
                         int (*may)(apr_uint32_t account));
/* Returns the account with the longest queue, or VL_NO_FLOW if all queues are empty. */
apr_uint32_t vl_wait_longest(const vl_wait_t *w);
/* Returns a new waiter with this done(): of the account's 64 newest waiters one whose client
 * has most waiters. Returns NULL if no waiter has this done(). It stays queued. */
vl_waiter_t *vl_wait_newest_with(const vl_wait_t *w, apr_uint32_t account,
                                 vl_waiter_done_fn done);
/* Calls fn once for each account that has a waiter. fn may add and remove waiters of that
 * account. */
void vl_wait_each_account(vl_wait_t *w, void (*fn)(apr_uint32_t account));
/* Return the number of waiters in all queues, and in one. */
apr_uint32_t vl_wait_count(const vl_wait_t *w);
apr_uint32_t vl_wait_count_of(const vl_wait_t *w, apr_uint32_t account);

#endif
