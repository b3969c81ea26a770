/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_WAITERS_H
#define VL_WAITERS_H

/* Everything that waits for a slot in this child process: connections that the acceptor
 * holds, connections that are parked in the MPM, and blocked threads. Each account has a
 * queue (vl_fair.h). The segment counts these waiters and grants slots to the child
 * (vl_slot.h); this file gives each grant to the account's first waiter.
 *
 * The owner of a waiter embeds a vl_waiter_t. Its done() is called once, with the waiters lock
 * held, unless the waiter is removed before.
 *
 * Invariant, under the waiters lock: an account has as many waiters here as its cell counts as
 * waiting and as deferred, plus those whose grant is in the child's ring or was just taken
 * out of it.
 *
 * Lock: the waiters lock, of this process. It is taken before the segment lock. Functions with
 * _locked require it, the others take it. Called by the acceptor and by the threads of
 * requests. */

#include "core/vl_slot.h"
#include "core/vl_fair.h"

/* The result of asking for a slot, which a request carries. */
typedef struct vl_grant_t {
    int holds;                  /* 1: ticket is held */
    vl_ticket_t ticket;
    vl_reason_e refused;        /* reason to refuse it, or VL_REASON_NONE */
    int given_back;             /* 1: slot released early; requeue at the head */
    int occupies;               /* 1: its thread is counted for ticket.account */
    int late;                   /* 1: its head has not come in time */
    int reset;                  /* 1: refused before its TLS handshake */
    apr_int64_t waited_us;
    apr_int64_t timeout_us;     /* maximum wait of requests of its account */
} vl_grant_t;

/* Initializes the queues of this child. threads: threads of the MPM in a child. With a
 * single one, the thread that waits must take the child's grants itself. workers: threads
 * of mod_http2. */
void vl_waiters_child_init(apr_pool_t *pchild, vl_shm_t *shm,
                           apr_uint32_t accounts, apr_uint32_t threads,
                           apr_uint32_t workers);

/* The waiters lock: of this process, guards the queues. */
void vl_waiters_lock(void);
void vl_waiters_unlock(void);

/* Releases the slot like vl_slot_end(), and hands the grants of this child to its waiters.
 * Returns what the account was charged. Takes the waiters lock if there are grants. */
apr_uint64_t vl_waiters_end(const vl_ticket_t *ticket, const vl_cost_t *cost);

/* The same with vl_slot_pause(). */
void vl_waiters_pause(const vl_ticket_t *ticket, apr_uint64_t us);

/* Takes a slot for a waiter (ret_ticket is not NULL, and it has may_defer), or queues it. The caller has
 * set account, key, since_us, deadline_us, done and may_defer. Returns 1 with the slot in *ret_ticket, or
 * 0 if the waiter is queued. done() may be called before this function returns. If the account's queue is
 * full, a waiter with may_defer is deferred: it waits beyond the queue. The order is the same for deferred
 * and queued waiters; the difference is only which count they are in. Any other waiter is refused then
 * (VL_REASON_QUEUE). */
int vl_waiters_take_or_queue_locked(vl_waiter_t *waiter, vl_ticket_t *ret_ticket);
/* Requeues a waiter at the head, because its grant could not be used. */
void vl_waiters_put_back_locked(vl_waiter_t *waiter);
/* Removes a waiter whose done() has not been called. done() will not be called. */
void vl_waiters_remove_locked(vl_waiter_t *waiter);

/* Blocks the calling thread until it gets a slot, is refused, or timeout_us has passed.
 * Without a slot and without a refusal, the waiter could not be counted. key: see vl_waiter_t. stream: the thread
 * is one of mod_http2. Streams wait like this when their site is at its own limits, and
 * over HTTP/2 where connections cannot be parked. Requests on kept-alive connections wait
 * like this where the MPM keeps a thread for each connection (worker, prefork). A grant
 * with given_back is requeued at the head and has waited for waited_us already, and always
 * waits. Returns 1
 * and fills in *grant after the wait. Returns 0 at once if too many threads wait: half of
 * the child's threads, five sixths of mod_http2's, and of those four fifths for one
 * account. Takes the waiters lock. */
int vl_waiters_wait(apr_uint32_t account, const vl_client_id_t *client, apr_uint32_t key, int stream,
                    apr_int64_t timeout_us, vl_grant_t *grant);

/* Gives slots to waiters that running requests wait for (vl_duty_call()). The acceptor calls it when it
 * was woken, as by the sampler, and periodically. */
void vl_waiters_let_calls_locked(void);
/* Takes the grants of this child and hands them to its waiters. */
void vl_waiters_take_locked(void);
/* Moves deferred waiters to the queues that are not full. The acceptor calls it when
 * another child has woken this one, and periodically. */
void vl_waiters_refill_locked(void);
/* Refuses the waiters whose deadline has passed: with VL_REASON_QUEUE if they were ever
 * deferred, otherwise with VL_REASON_TIMEOUT. Refuses at most max waiters with
 * may_defer; the others stay until the next call. Returns the number of waiters with
 * may_defer that it refused. */
apr_uint32_t vl_waiters_expire_locked(apr_int64_t now_us, apr_uint32_t max);
/* Returns 1 if a waiter with this done() is queued or deferred. */
int vl_waiters_has_locked(vl_waiter_done_fn done);
/* Removes and returns a waiter with this done(), a queued one if there is any. queued 1:
 * returns only queued waiters. Returns NULL if there is none. */
vl_waiter_t *vl_waiters_evict_locked(vl_waiter_done_fn done, int queued);
/* Returns the newest waiter with this done() of the account that has the most waiters here,
 * and in *ret_count the number of that account's waiters. The waiter stays queued. Returns
 * NULL if there is none. */
vl_waiter_t *vl_waiters_newest_of_longest_locked(vl_waiter_done_fn done,
                                                 apr_uint32_t *ret_count);

#endif
