/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SLOT_H
#define VL_SLOT_H

/* Slots of the server: requests and connections wait for one, are granted one and release
 * it. The fair queue of vl_fair.h runs over all children in the segment.
 *
 * A waiter (a socket, a parked connection, a blocked thread) stays in its child process. The
 * segment only counts it. The thread that releases a slot dispatches (vl_dispatch.h). After
 * vl_slot_take_or_wait() and vl_slot_end(), check vl_slot_granted(): a grant to the calling child
 * does not wake it. vl_waiters.h does that.
 *
 * This file owns the slots that this child holds (running and streams of its cells), its
 * waiting and deferred counts, the metrics of requests, and the number of slots. Invariant:
 * each ticket that a function returns is released once, by vl_slot_end() or one of its
 * relatives.
 *
 * Lock: the segment lock, which the functions take themselves unless their comment says
 * otherwise. Called in children, by the threads that run requests and by the acceptor.
 * vl_slot_set() is called by the parent. */

#include "core/vl_admit.h"
#include "core/vl_charge.h"
#include "core/vl_shm.h"

/* How a waiter is counted. */
typedef enum {
    VL_WAIT,                /* if the account's queue is not full */
    VL_WAIT_AGAIN,          /* also if it is: the waiter's grant could not be used */
    VL_WAIT_OR_DEFER,       /* a connection: if it does not fit, it is counted as deferred and
                             * waits in this child beyond the queue */
    VL_WAIT_ASK             /* the same, unless it may run at once (VL_ASK_NEW) */
} vl_wait_e;

/* Takes a slot (VL_WAIT_ASK), or adds one waiter of the account, which arrived at since_us, to this
 * child's part of the queue, and dispatches. A grant may already be in this child's ring when the function returns. Returns
 *   APR_SUCCESS      it is queued; VL_WAIT_ASK: it has the slot in *ret_ticket;
 *   APR_EINPROGRESS  VL_WAIT_ASK: it is queued;
 *   APR_EAGAIN       the queue is full, and a connection is deferred.
 * For a connection the queue is also full if this child uses its whole part of it, which is
 * proportional to its number of queued and deferred connections of the account. So no child
 * depends on another one to make progress, and connections enter the queue approximately in order
 * of arrival. */
apr_status_t vl_slot_take_or_wait(vl_shm_t *shm, apr_uint32_t account, apr_int64_t since_us,
                                  vl_wait_e how, vl_ticket_t *ret_ticket);
/* Counts deferred connections of the account in this child as queued until its part of the queue
 * is full. If there is a place for another child that has deferred ones, wakes that child. */
void vl_slot_refill(vl_shm_t *shm, apr_uint32_t account);
/* Releases a slot that was granted to this child, and which no waiter can use. since_us: the arrival
 * of a waiter that is counted as waiting again; 0: there is none. */
void vl_slot_put_back(vl_shm_t *shm, const vl_ticket_t *ticket, apr_int64_t since_us);
/* Returns the number of deferred connections of the account in all children. Takes no
 * lock. */
apr_uint32_t vl_slot_deferred(const vl_shm_t *shm, apr_uint32_t account);
/* Returns the number of those in this child. Takes no lock: only this child changes it. */
apr_uint32_t vl_slot_deferred_here(const vl_shm_t *shm, apr_uint32_t account);
/* Removes one waiter of the account in this child, a deferred one if there is any. Returns
 * APR_EAGAIN if none is counted any more: its grant is already in the ring. */
apr_status_t vl_slot_unwait(vl_shm_t *shm, apr_uint32_t account);
/* Returns 1 if some child has a queued waiter that only lacks a slot or a thread. Waiters
 * of an account that is at its own limits do not count. Takes no lock. */
int vl_slot_contended(const vl_shm_t *shm);
/* Returns 1 if this child has grants to take. Takes no lock, so a grant that another child
 * is adding may be missed. */
int vl_slot_granted(const vl_shm_t *shm);
/* Takes the next grant of this child. Returns APR_EAGAIN if there is none. In that case the
 * next process that grants a slot to this child wakes it. */
apr_status_t vl_slot_take(vl_shm_t *shm, vl_ticket_t *ret_ticket);

/* Counts one slot more (by 1) or less (-1) that child c holds for the account. stream: of a stream,
 * which uses no thread of the MPM. Requires the segment lock. */
void vl_slot_hold_locked(vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account, int stream, int by);
/* The same for a thread that is occupied without a slot. */
void vl_slot_occupy_locked(vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account, int by);
/* Takes a slot at once if vl_admit() says so, otherwise returns APR_EAGAIN. stream 1: the request
 * takes no thread of the MPM: it runs on one of mod_http2, or its connection's is counted
 * already. */
apr_status_t vl_slot_ask(vl_shm_t *shm, apr_uint32_t account, vl_ask_e ask, int stream,
                              vl_ticket_t *ret_ticket);

/* Result of vl_slot_enter(). */
typedef struct vl_admission_t {
    vl_reason_e refused;        /* DryRun: why mode On would refuse the request */
    int entered;                /* 1: the slot must be released with vl_slot_end() */
    vl_ticket_t ticket;
    apr_uint32_t concurrency;   /* for vl_admit_retry_after() */
    apr_uint64_t service_us;
    apr_uint32_t thread_us;     /* average CPU time of a request in its thread */
} vl_admission_t;

/* Admits a request immediately, bypassing the queue, even above the number of slots.
 * Refuses it only if the account has reached its concurrency. */
apr_status_t vl_slot_enter(vl_shm_t *shm, apr_uint32_t account,
                           vl_admission_t *ret_admission);

/* Returns the average CPU time of a request of the account in its thread, us. Takes no lock. */
apr_uint32_t vl_slot_thread_us(const vl_shm_t *shm, apr_uint32_t account);
/* Returns the estimated cost of a request of the account, us of CPU time. Takes no lock. */
apr_uint32_t vl_slot_estimate(const vl_shm_t *shm, apr_uint32_t account);
/* Returns the number of queued requests and connections of the account in all children.
 * Takes no lock. */
apr_uint32_t vl_slot_queued(const vl_shm_t *shm, apr_uint32_t account);

/* Counts the refusal of a queued request with the reason in ret_admission->refused, and
 * fills in the other members. */
void vl_slot_refused(vl_shm_t *shm, apr_uint32_t account,
                     vl_admission_t *ret_admission);

/* Counts a connection that is refused with a reset, and charges cost_us to the account. */
void vl_slot_reset(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t cost_us);
/* Counts a queued connection of the account whose client has closed it after waited_us. */
void vl_slot_gone(vl_shm_t *shm, apr_uint32_t account, apr_int64_t waited_us);

/* Counts the start of a request on adm->ticket after wait_us, and fills in thread_us. Takes no
 * lock. */
void vl_slot_begin(vl_shm_t *shm, apr_uint64_t wait_us, vl_admission_t *adm);

/* Releases the slot and dispatches. cost NULL: the slot was not used, and its charge is
 * refunded. Returns what the account was charged for it, us of CPU time. */
apr_uint64_t vl_slot_end(vl_shm_t *shm, const vl_ticket_t *ticket,
                 const vl_cost_t *cost);

/* Releases a slot that was not used, and refunds its charge. Requires the segment lock and
 * does not dispatch. */
void vl_slot_cancel_locked(vl_shm_t *shm, const vl_ticket_t *ticket);

/* Like vl_slot_end(), and takes up to max grants of this child, regardless of the process
 * that made them. Saves one acquisition of the lock compared with vl_slot_take(). Returns
 * the number of grants taken. */
apr_uint32_t vl_slot_end_and_take(vl_shm_t *shm, const vl_ticket_t *ticket,
                                  const vl_cost_t *cost,
                                  apr_uint64_t *ret_charged,
                                  vl_ticket_t *ret_tickets, apr_uint32_t max);

/* Releases the slot of a request that waits for its client, and dispatches. us: CPU time
 * that the request has used since it was last charged. It is charged to the account. */
void vl_slot_pause(vl_shm_t *shm, const vl_ticket_t *ticket, apr_uint64_t us);
/* Takes a slot again for a request that was paused, even above the number of slots and the
 * account's own limits. */
void vl_slot_go_on(vl_shm_t *shm, vl_ticket_t *ticket);

/* --- threads without a slot -------------------------------------------------
 * A running request has a slot and a thread. Other threads are occupied without a slot: the
 * thread of an HTTP/2 connection while its streams run on threads of mod_http2; a thread
 * that waits for its client (a TLS handshake, an upload, a response that is read slowly);
 * and a thread waiter. They are counted for their account, so that no account gets all
 * threads of a child. Each that vl_slot_occupy() counts is released once by
 * vl_slot_unoccupy(). */

typedef enum {
    VL_OCCUPY,              /* counts one more thread of this child */
    VL_OCCUPY_ASK,          /* the same if the account stays within its capacity threshold */
    VL_OCCUPY_IDLE,         /* prefork: an idle connection keeps its process: counts it, and asks if
                             * the account could then get another one */
    VL_OCCUPIED             /* asks only: the thread is counted already */
} vl_occupy_e;

/* Counts a thread of this child as occupied by the account without a slot. Returns 0 if the account
 * exceeds its capacity threshold: VL_OCCUPY_ASK has counted nothing then, and the connection of
 * VL_OCCUPY_IDLE should close. */
int vl_slot_occupy(vl_shm_t *shm, apr_uint32_t account, vl_occupy_e how);
/* Undoes vl_slot_occupy() and dispatches. */
void vl_slot_unoccupy(vl_shm_t *shm, apr_uint32_t account);

/* The slot that is held belongs to a stream, which uses no thread of the MPM. */
void vl_slot_is_stream(vl_shm_t *shm, vl_ticket_t *ticket);

/* Adds `by` to the number of the account's waiters that the MPM has (vl_waiter_t.in_mpm is set):
 * thread waiters need no other thread when they are granted a slot; parked connections need one, but
 * the MPM need not accept them. Call it before they are counted as waiting, and with -1 when they no
 * longer wait. Takes no lock: the waiters lock. */
void vl_slot_count_in_mpm(vl_shm_t *shm, apr_uint32_t account, int has_thread, int by);
/* Returns 1 if requests are queued and one account could not get any more threads of this
 * child (vl_admit.h). Prefork: returns 1 if no process is free, and the MPM may start
 * none or requests are queued. Takes no lock, so the answer is not exact. */
int vl_slot_threads_are_short(const vl_shm_t *shm);

/* Returns 1 if the MPM accepts no connections. Grants of this child are then for
 * connections that the MPM already has. Takes no lock, so the answer is not exact. */
int vl_slot_only_in_mpm(vl_shm_t *shm);

/* --- settings --------------------------------------------------------------- */

/* VhostLimitSlots auto: slots for each processor. A slot is runnable work (vl_fair.h), so
 * more would only make the kernel switch between more of it. */
#define VL_AUTO_PER_CPU 8
/* Sets the number of slots of the server. 0: VL_AUTO_PER_CPU for each
 * processor. */
void vl_slot_set(vl_shm_t *shm, apr_uint32_t slots);
/* Sets how many child processes the MPM may have, and the idle threads (prefork: processes) below
 * which it starts further ones (MinSpareThreads, MinSpareServers). Parent. */
void vl_slot_set_mpm(vl_shm_t *shm, apr_uint32_t processes, apr_uint32_t spare);
/* Returns 1 if the account has a CPU cap, so it may become eligible without any release.
 * Takes no lock. */
int vl_slot_capped(const vl_shm_t *shm, apr_uint32_t account);
/* Returns the queue limit of the account. 0: its requests never wait. Takes no lock. */
apr_uint32_t vl_slot_queue(const vl_shm_t *shm, apr_uint32_t account);

#endif
