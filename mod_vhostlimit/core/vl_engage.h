/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ENGAGE_H
#define VL_ENGAGE_H

/* The two states of the server: dormant, while nothing is contended, and engaged.
 *
 *   DORMANT --the request, or the connection, that crosses a line----> ENGAGED
 *   ENGAGED --for VL_CALM_US the queue has nothing to decide---------> DORMANT
 *
 * While the server is dormant the MPM accepts connections itself, and a request takes no slot
 * and no lock: it is listed in its child's table of tasks (vl_duty.h) and counted. A request
 * that would exceed a line is not listed; it engages the server and asks for a slot.
 * Engaging gives a slot to each listed request, so both are counted alike from then on.
 *
 * This file owns, in the segment, the state and the counts of listed requests. Invariant: a
 * listed request is either counted here or holds a slot; one compare-and-swap of its entry
 * decides. Lock: changes of the state take the segment lock, listed requests none.
 * Callers: the threads of requests, the MPM's listener thread, and the acceptor. */

#include "core/vl.h"
#include "core/vl_duty.h"
#include "core/vl_shm.h"

/* The server becomes dormant after so long below half of the threads, with nothing to decide. */
#define VL_CALM_US (1 * APR_USEC_PER_SEC)

/* Why the server is engaged. */
typedef enum {
    VL_ENGAGED_SLOTS,               /* more runnable requests than slots, of uneven sites */
    VL_ENGAGED_THREADS,             /* four fifths of a child's threads are busy */
    VL_ENGAGED_LIMIT,               /* a site reached its concurrency, or has a CPU cap */
    VL_ENGAGED_ALWAYS               /* this MPM, or a child without an acceptor, is never dormant */
} vl_engaged_e;

/* How the state changes, for tests. */
typedef enum { VL_FORM_USUAL, VL_FORM_ENGAGED, VL_FORM_TOGGLED } vl_form_e;

typedef struct vl_engage_t {
    int engaged;                    /* atomic */
    vl_engaged_e why;
    vl_form_e form;
    apr_uint32_t changes;
    apr_int64_t since_us;           /* when it last changed, us */
    apr_int64_t busy_us;            /* when it was last not calm, us */
    apr_uint32_t busy;              /* prefork: processes that have a connection; atomic */
    int at_limit;                   /* a site has reached its concurrency; atomic */
    apr_int64_t load;               /* permille of slots that listed requests want; atomic */
    apr_uint32_t sites;             /* accounts with a listed request; atomic */
} vl_engage_t;

/* Parent: sets the first state. may_rest: the server may be dormant. */
void vl_engage_post_config(vl_shm_t *shm, int may_rest);
/* Returns a copy of the state, without the lock. */
vl_engage_t vl_engage_state(const vl_shm_t *shm);
/* Returns 1 if the server is dormant. */
int vl_engage_is_dormant(const vl_shm_t *shm);

/* Returns 1 if the server is dormant and one more request is not expected to cross a line. Engages it
 * otherwise, so that the request waits before its connection has a thread. account_1: 1 + its
 * account; 0: not known. Takes no lock. */
int vl_engage_has_room(vl_shm_t *shm, apr_uint32_t account_1);
/* Engages the server. VL_ENGAGED_ALWAYS: until its next restart. */
void vl_engage_now(vl_shm_t *shm, vl_engaged_e why) __attribute__((cold));
/* Counts a connection that the MPM has accepted while the server is dormant (by 1), or uncounts it (-1)
 * when its first request begins, or it ends. Under worker its thread is counted so until it has a lease,
 * under prefork its process until it ends, in both states. */
void vl_engage_accepted(vl_shm_t *shm, int by);

/* Lists a request in an entry of this child's table of tasks, or NULL, and counts it as admitted.
 * stream: it uses no thread that is counted for it. Returns 0, and engages the server, if the request has to
 * ask for a slot. */
int vl_engage_list(vl_shm_t *shm, task_t *task, apr_uint32_t account, int client_fd, int stream);
/* Unlists it. Returns 1 if it holds a slot, which the caller releases. */
int vl_engage_unlist(vl_shm_t *shm, task_t *task, vl_ticket_t *ret_ticket);
/* Sampler: a request that was listed waits for its client for long: if it holds a slot, it holds it no
 * more, and occupies its thread. c, i: its entry. serial: of the request that was seen there. */
void vl_engage_disown(vl_shm_t *shm, apr_uint32_t c, apr_uint32_t i, apr_uint32_t serial);
/* Charges the account for `requests` listed requests that have ended without a slot, and that took
 * busy_us and cpu_us together. */
void vl_engage_charge(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t requests,
                      apr_uint64_t busy_us, apr_uint64_t cpu_us);

/* Timed work of one child while the server is engaged: gives slots to requests that were
 * listed meanwhile, and makes the server dormant when it is calm. held: under prefork, connections of
 * the acceptor, which it gives to processes before it becomes one; otherwise 0. */
void vl_engage_tick(vl_shm_t *shm, apr_int64_t now_us, apr_uint32_t held);

#endif
