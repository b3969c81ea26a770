/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SLOT_H
#define VL_SLOT_H

/* Slots of the server: requests and connections wait for one, are granted one and release
 * it. The fair queue of vl_fair.h runs over all children in the segment. `child` is a column of the segment.
 *
 * A waiter (a socket, a parked connection, a blocked thread) stays in its child process. The
 * segment only counts it. The thread that releases a slot dispatches: it chooses the account by the fair
 * queue, within the capacity thresholds, and then the child in which that account's first waiter probably
 * waits. The grant goes into that child's ring. Another child is woken through its eventfd, after the lock
 * is released. The calling child is not: after vl_slot_take_or_wait() and vl_slot_end(), check
 * vl_slot_granted(). vl_waiters.h does that.
 *
 * This file owns the slots that this child holds (running and streams of its cells), its
 * waiting and deferred counts, the rings of grants, the metrics of requests, and the number of slots.
 * Invariants: each ticket that a function returns is released once, by vl_slot_end() or one of its
 * relatives; a single store makes a grant valid, takes it or revokes it; a stalled child has an empty ring;
 * each request is charged the CPU time of its thread once, however it is split into parts.
 *
 * Lock: the segment lock, which the functions take themselves unless their comment says
 * otherwise. Called in children, by the threads that run requests and by the acceptor, by the rest of the
 * core after every change that may make a waiter eligible, and by the sampler.
 * vl_slot_set() is called by the parent. */

#include "core/vl_fair.h"
#include "core/vl_shm.h"

/* --- may this request run now? ----------------------------------------------- */

/* vl_slot_admit() answers a request that asks. For one that is queued the dispatcher answers: can_serve(),
 * of sites within their limits (vl_fair_is_within_bounds()).
 * A request needs a slot of the server, and mostly a thread of a child process. What is checked depends on
 * what asks:
 *
 *                        | own limits  | none waits | slot            | thread
 *   VL_ASK_NEW           | yes         | yes        | yes             | for a new connection
 *   the dispatcher       | in the heap | in the heap | vl_slot_may_take() | may_take_thread()
 *   VL_ASK_LEASE         | yes         | -          | the number, auto: twice while others wait | -
 *   VL_ASK_KEPT          | yes         | -          | the same        | if its requests sleep
 *   VL_ASK_FORCED        | yes         | -          | -               | -
 *   VL_ASK_ENTER         | concurrency | -          | -               | -
 *   VL_ASK_ERROR_PAGE    | -           | yes        | one free        | -
 *   VL_ASK_CALL          | -           | -          | four times as many as other requests | -
 *
 * Some slots, threads and processes are kept free for other accounts. A slot is never taken
 * back, so a single account must not hold all of them. The threshold is dynamic (Choudhury and
 * Hahne 1998): an account may take one more unit while it holds less than four times what is
 * free. A single account so gets four fifths. With automatic slots CPU time decides instead,
 * and only the last fifth is kept (may_take_slot() has the cases).
 *
 * A child that has the event or worker MPM runs requests on its threads. Under prefork every
 * child has one thread, so an account's processes are compared with the threshold instead of
 * its threads, and the acceptor is granted slots for all of them. */

/* What asks for a slot. */
typedef enum {
    VL_ASK_NEW,             /* a request or a new connection, which can also wait */
    VL_ASK_LEASE,           /* the next request of a connection whose lease has credit */
    VL_ASK_KEPT,            /* the same, and the connection has no thread of its own */
    VL_ASK_FORCED,          /* a request that cannot wait */
    VL_ASK_ENTER,           /* the same, in a site without a queue, or in mode DryRun */
    VL_ASK_ERROR_PAGE,      /* the answer to a refused request */
    VL_ASK_CALL             /* a request that another running request waits for */
} vl_ask_e;

/* Why it may not run now. Callers only compare with VL_ADMITTED; unit tests check which line of the table
 * has answered. */
typedef enum {
    VL_ADMITTED,
    VL_NOT_BY_LIMITS,       /* its concurrency or its CPU cap is reached */
    VL_NOT_BEFORE_OTHERS,   /* other requests wait */
    VL_NO_SLOT,
    VL_NO_THREAD
} vl_admit_e;

/* Answers for the calling child. Requires the segment lock. */
vl_admit_e vl_slot_admit(const vl_shm_t *shm, apr_uint32_t account, vl_ask_e ask);
/* The part of the answer about slots, for a waiter of the account that is due first (is_first 1), or
 * of another one, because those before it cannot be served. -1: only the heaviest account is before it,
 * whose requests may sleep in a back end, so it may stay the one that is due. A light one is served then,
 * unless these are awake. */
int vl_slot_may_take(const vl_queue_t *q, apr_uint32_t account, int is_first);
/* An account of sleeping requests: its duty is at most this, permille. What they hold of a slot
 * is an average: at this moment all may be asleep, or none. */
#define VL_DUTY_SLEEPS 600
/* The heaviest account has kept its slots for long if each of its requests runs for longer: the
 * time since one of them ended, times their number. */
#define VL_KEPT_US 50000

/* --- the dispatcher ---------------------------------------------------------- */

/* Dispatches, and wakes every child that has grants: the process that made them may have
 * died before it woke the child. Also for the parent. */
void vl_slot_dispatch(vl_shm_t *shm);
/* Dispatches and releases the lock, which the caller holds. */
void vl_slot_dispatch_and_unlock(vl_shm_t *shm);

/* Revokes the grants of children that have not taken any for a second, and marks those
 * children as stalled. They are granted nothing until vl_slot_take() clears the mark. Every child calls this
 * periodically. */
void vl_slot_revoke_stalled(vl_shm_t *shm, apr_int64_t now_us);

/* Wakes all other children. Takes no lock: the sampler needs none, and the rescue process
 * (vl_rescue.c) may take none. The kernel knows no robust locks of a process that clone() made,
 * so a lock that it held at its death would never be free again. */
void vl_slot_wake_all(const vl_shm_t *shm);
/* Wakes the acceptor of this child. */
void vl_slot_wake_self(const vl_shm_t *shm);

/* --- waiters and their slots --------------------------------------------------- */

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
/* The same for what a ticket says of calls. */
void vl_slot_hold_call_locked(vl_shm_t *shm, apr_uint32_t c, const vl_ticket_t *ticket, int by);
/* The same for a thread that is occupied without a slot. */
void vl_slot_occupy_locked(vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account, int by);
/* Takes a slot at once if vl_slot_admit() says so, otherwise returns APR_EAGAIN. stream 1: the request
 * takes no thread of the MPM: it runs on one of mod_http2, or its connection's is counted
 * already. */
apr_status_t vl_slot_ask(vl_shm_t *shm, apr_uint32_t account, vl_ask_e ask, int stream,
                              vl_ticket_t *ret_ticket);
/* The same for a request that a running one waits for. call: the answer of vl_duty_call(), the caller. */
apr_status_t vl_slot_ask_call(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t call, int stream,
                              vl_ticket_t *ret_ticket);

/* Result of vl_slot_enter(). */
typedef struct vl_admission_t {
    vl_reason_e refused;        /* DryRun: why mode On would refuse the request */
    int entered;                /* 1: the slot must be released with vl_slot_end() */
    vl_ticket_t ticket;
    apr_uint32_t concurrency;   /* for vl_slot_retry_after() */
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

/* --- what a request is charged -------------------------------------------------- */

/* In CPU time only: that of Apache's threads, which their own clocks measure, and that of back ends, which
 * the sampler measures later than the request ends (vl_charge.h). So a request is charged an advance at its
 * end: its time in service, at the account's recent ratio of back-end CPU time to time in service.
 * vl_charge_backend() replaces the advances by what was measured, so the sum is exact. */
typedef struct vl_cost_t {
    apr_uint64_t busy_us;       /* from the start to the end */
    apr_uint64_t cpu_us;        /* CPU time of Apache's thread */
    apr_uint64_t charged_us;    /* part of it that vl_slot_charge() has charged */
    const vl_client_id_t *client;   /* charged too (vl_fair.h), or NULL. If the request waited
                                     * as another one, that one is charged as well */
} vl_cost_t;

/* Charges the account us of CPU time for a part of a request's work. */
void vl_slot_charge(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us);
/* The same under the segment lock. */
void vl_slot_charge_locked(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us);
/* Ends the charging of a request: counts its cost for the status page, and returns the whole
 * cost with the advance for its back ends, us of CPU time, for vl_fair_end(). Requires the
 * segment lock. */
apr_uint64_t vl_slot_charge_end_locked(vl_shm_t *shm, apr_uint32_t account,
                                  const vl_cost_t *cost);

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
/* Notes the account whose request waits for this one and pays for it. call: an answer of vl_duty_call(). What
 * the ticket's account was charged in advance is given back: its other requests would wait for it. */
void vl_slot_found_caller(vl_shm_t *shm, vl_ticket_t *ticket, apr_uint32_t call);

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
 * child (see above). Prefork: returns 1 if no process is free, and the MPM may start
 * none or requests are queued. Takes no lock, so the answer is not exact. */
int vl_slot_threads_are_short(const vl_shm_t *shm);

/* Returns 1 if the MPM accepts no connections. Grants of this child are then for
 * connections that the MPM already has. Takes no lock, so the answer is not exact. */
int vl_slot_only_in_mpm(vl_shm_t *shm);

/* Returns the number of busy threads of the MPM in the child. Without the lock it is not exact. */
apr_uint32_t vl_slot_busy_threads(const vl_shm_t *shm, apr_uint32_t child);

/* Free capacity of this child (here) and of the other children together (elsewhere),
 * without the threads that each child reserves for accounts that hold none. ended: requests
 * that have ended in this child. */
typedef struct vl_capacity_t {
    apr_uint32_t here, elsewhere;
    apr_uint32_t most;              /* here, when no request runs */
    apr_uint32_t ended;             /* wraps around */
} vl_capacity_t;

/* Fills in *ret_capacity. Takes the segment lock. Called by the acceptor, not under prefork. */
void vl_slot_capacity(vl_shm_t *shm, vl_capacity_t *ret_capacity);

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

/* --- without the segment and its lock --------------------------------------- */

/* Returns 1 if an account that holds `held` units of a resource may take one more while
 * `left` units are free. */
int vl_slot_more(apr_uint32_t held, apr_uint32_t left);
/* The same for one of n active accounts: the threshold is in proportion to its weight.
 * Otherwise accounts that all want more would hold the same number of slots, whatever their
 * weights. weight: its weight; weights: the sum of the n weights; both in one unit. An
 * account that holds nothing may take any free unit. */
int vl_slot_more_weighted(apr_uint32_t held, apr_uint32_t left, apr_uint32_t weight,
                           apr_uint32_t n, apr_uint64_t weights);

/* Returns after how many seconds a refused client should retry. That is the time until a
 * slot is expected to be free (mean service time / slots, all slots being used), at least 1
 * and at most VL_RETRY_MAX. `random` extends it to up to twice that, so that refused
 * clients do not all return at the same instant. */
#define VL_RETRY_MAX 30
apr_uint32_t vl_slot_retry_after(apr_uint64_t service_us, apr_uint32_t slots,
                                  apr_uint32_t random);
/* Returns the name of the reason for logs and status pages. */
const char *vl_slot_reason_name(vl_reason_e reason);

#endif
