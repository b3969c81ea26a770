/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ADMIT_H
#define VL_ADMIT_H

/* Admission: may this request run now?
 *
 * vl_admit() answers a request that asks. For one that is queued the dispatcher answers: can_serve() in
 * vl_dispatch.c. A request needs a slot of the server, and mostly a thread of a child process. What is
 * checked depends on what asks:
 *
 *                        | own limits  | none waits | slot            | thread
 *   VL_ASK_NEW           | yes         | yes        | yes             | for a new connection
 *   the dispatcher       | (in the queue: vl_fair.h) | vl_admit_slot() | vl_admit_thread()
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
 * and only the last fifth is kept (vl_admit_slot() has the cases).
 *
 * A child that has the event or worker MPM runs requests on its threads. Under prefork every
 * child has one thread, so an account's processes are compared with the threshold instead of
 * its threads, and the acceptor is granted slots for all of them.
 *
 * This file owns no state. Lock: the segment lock, unless a comment says otherwise. vl_slot.c calls
 * vl_admit(), and the dispatcher the functions that its row names. The rest of the core, the acceptor,
 * `lease`, `request` and `config` call the others. `child` is a column of the segment. */

#include "core/vl_fair.h"
#include "core/vl_shm.h"

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

/* Answers for the calling child. */
vl_admit_e vl_admit(const vl_shm_t *shm, apr_uint32_t account, vl_ask_e ask);
/* Returns 1 if connections with a lease have to wait for a slot. Without the lock it is not exact. */
int vl_admit_is_overrun(const vl_shm_t *shm);

/* The part of the answer about slots, for a waiter of the account that is due first (is_first 1), or
 * of another one, because those before it cannot be served. -1: only the heaviest account is before it,
 * whose requests may sleep in a back end, so it may stay the one that is due. A light one is served then,
 * unless these are awake. */
int vl_admit_slot(const vl_queue_t *q, apr_uint32_t account, int is_first);
/* An account of sleeping requests: its duty is at most this, permille. What they hold of a slot
 * is an average: at this moment all may be asleep, or none. */
#define VL_DUTY_SLEEPS 600
/* The heaviest account has kept its slots for long if each of its requests runs for longer: the
 * time since one of them ended, times their number. */
#define VL_KEPT_US 50000

/* Returns 1 if the child can use one more grant of the account: for a new connection, or, if
 * is_new is 0, also for a waiter that it already has. */
int vl_admit_thread(const vl_shm_t *shm, apr_uint32_t child, apr_uint32_t account, int is_new);
/* Returns 1 if the account exceeds its threshold for threads in this child (prefork: for
 * processes). */
int vl_admit_is_exceeded(const vl_shm_t *shm, apr_uint32_t account);
/* Prefork only. Returns 1 if the account may use one more process. Its processes include
 * those of its idle connections. */
int vl_admit_process(const vl_shm_t *shm, apr_uint32_t account);

/* Returns the number of requests that the child can run at once, or the number of
 * connections that the acceptor can relay. Without the lock it is not exact, nor is the next one. */
apr_uint32_t vl_admit_most(const vl_shm_t *shm, apr_uint32_t child);
/* Returns the number of busy threads of the MPM in the child. */
apr_uint32_t vl_admit_busy(const vl_shm_t *shm, apr_uint32_t child);
/* Returns how many more new connections the child can run. */
apr_uint32_t vl_admit_left(const vl_shm_t *shm, apr_uint32_t child);

/* Free capacity of this child (here) and of the other children together (elsewhere),
 * without the threads that each child reserves for accounts that hold none. ended: requests
 * that have ended in this child. */
typedef struct vl_capacity_t {
    apr_uint32_t here, elsewhere;
    apr_uint32_t most;              /* here, when no request runs */
    apr_uint32_t ended;             /* wraps around */
} vl_capacity_t;

/* Fills in *ret_capacity. Takes the segment lock. Called by the acceptor, not under prefork. */
void vl_admit_capacity(vl_shm_t *shm, vl_capacity_t *ret_capacity);

/* --- without the segment and its lock --------------------------------------- */

/* Returns 1 if an account that holds `held` units of a resource may take one more while
 * `left` units are free. */
int vl_admit_more(apr_uint32_t held, apr_uint32_t left);
/* The same for one of n active accounts: the threshold is in proportion to its weight.
 * Otherwise accounts that all want more would hold the same number of slots, whatever their
 * weights. weight: its weight; weights: the sum of the n weights; both in one unit. An
 * account that holds nothing may take any free unit. */
int vl_admit_more_weighted(apr_uint32_t held, apr_uint32_t left, apr_uint32_t weight,
                           apr_uint32_t n, apr_uint64_t weights);

/* Returns after how many seconds a refused client should retry. That is the time until a
 * slot is expected to be free (mean service time / slots, all slots being used), at least 1
 * and at most VL_RETRY_MAX. `random` extends it to up to twice that, so that refused
 * clients do not all return at the same instant. */
#define VL_RETRY_MAX 30
apr_uint32_t vl_admit_retry_after(apr_uint64_t service_us, apr_uint32_t slots,
                                  apr_uint32_t random);
/* Returns the name of the reason for logs and status pages. */
const char *vl_admit_reason_name(vl_reason_e reason);

#endif
