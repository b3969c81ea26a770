/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SLOT_H
#define VL_SLOT_H

/* Slots: who waits for one, who is given one, and how it comes back.  The fair
 * queue of vl_queue.h over all children, in the segment of vl_shm.h.
 *
 * What waits (a socket, a parked connection) stays in its child; here it is
 * only a number.  Whoever frees a slot grants it to the account whose turn it
 * is, in a child where that account waits; another child is woken
 * through its descriptor, one's own is not: after vl_slot_wait() and
 * vl_slot_end(), ask vl_slot_granted().  vl_park.h does so for everybody. */

#include "core/vl_admit.h"
#include "core/vl_charge.h"
#include "core/vl_shm.h"

/* A slot that is held: give it back with vl_slot_end(), once. */
typedef struct vl_ticket_t {
    apr_uint32_t account;
    apr_uint32_t charged;       /* us */
    int stream;                 /* see vl_thread_is_stream() */
} vl_ticket_t;

/* One more of the account waits in this child since `since_us`, or APR_EAGAIN:
 * as many wait as may.  A grant may be there to be taken right after. */
apr_status_t vl_slot_wait(vl_shm_t *shm, apr_uint32_t account,
                          apr_int64_t since_us);
/* The same for a connection.  APR_EAGAIN: it is counted as deferred, and waits
 * in this child beyond the queue, because the queue is full or because this
 * child has its part of it.  A child's part of the queue is the part that it has
 * of all the account's connections.  So no child depends on another to go on,
 * and connections enter the queue about in the order in which they came. */
apr_status_t vl_slot_wait_or_defer(vl_shm_t *shm, apr_uint32_t account,
                                   apr_int64_t since_us);
/* A slot at once, as vl_slot_try(), or else as vl_slot_wait_or_defer(), with
 * APR_EINPROGRESS in place of its APR_SUCCESS. */
apr_status_t vl_slot_try_or_wait(vl_shm_t *shm, apr_uint32_t account,
                                 apr_int64_t since_us, vl_ticket_t *ret_ticket);
/* A deferred connection of the account in this child, which came at since_us,
 * enters the queue.  APR_EAGAIN: the queue has no place for it. */
apr_status_t vl_slot_enqueue_deferred(vl_shm_t *shm, apr_uint32_t account,
                                      apr_int64_t since_us);
/* A deferred connection of the account in this child leaves. */
void vl_slot_undefer(vl_shm_t *shm, apr_uint32_t account);
/* Connections of the account that are deferred, in all children. */
apr_uint32_t vl_slot_deferred(const vl_shm_t *shm, apr_uint32_t account);
/* If the account's queue has a place that only a deferred connection of another
 * child can take, that child is woken. */
void vl_slot_wake_deferred(vl_shm_t *shm, apr_uint32_t account);
/* One whose turn had come and could not be used: as many as it takes. */
apr_status_t vl_slot_wait_again(vl_shm_t *shm, apr_uint32_t account,
                                apr_int64_t since_us);
/* The one of the account who is now first in this child came at since_us. */
void vl_slot_first(vl_shm_t *shm, apr_uint32_t account, apr_int64_t since_us);
/* One of them gives up.  APR_EAGAIN: too late, its grant is on the way. */
apr_status_t vl_slot_unwait(vl_shm_t *shm, apr_uint32_t account);
/* Now and then in every child: what other children were granted and have not
 * picked up for a second goes to others, until they look again. */
void vl_slot_revoke_stalled(vl_shm_t *shm, apr_int64_t now_us);
/* This child looks again: vl_slot_take() says so. */
void vl_slot_resume_child(vl_shm_t *shm);
/* Wakes the other children that have room: there is work they should look for. */
void vl_slot_wake_others(vl_shm_t *shm);
/* Something is queued, in whatever child, that could run if a slot or a thread
 * were free.  What waits for its own site's limits is not. */
int vl_slot_contended(const vl_shm_t *shm);
/* There are grants to take; not exact for those that other children give. */
int vl_slot_granted(const vl_shm_t *shm);
/* The next grant of this child; APR_EAGAIN: none, and other children will say
 * when there is. */
apr_status_t vl_slot_take(vl_shm_t *shm, vl_ticket_t *ret_ticket);

/* A slot without waiting, if one is free and it is nobody else's turn; else
 * APR_EAGAIN. */
apr_status_t vl_slot_try(vl_shm_t *shm, apr_uint32_t account,
                         vl_ticket_t *ret_ticket);

/* For who cannot wait: in at once, above the slots if need be, unless the
 * account's concurrency is reached. */
typedef struct vl_admission_t {
    vl_decision_t decision;
    int entered;                /* a vl_slot_end() is owed */
    int backlogged;             /* others of the account wait */
    vl_ticket_t ticket;
    apr_uint32_t concurrency;   /* for vl_admit_retry_after() */
    apr_uint64_t service_us;
    apr_uint32_t thread_us;     /* CPU that its thread will burn, by and large */
} vl_admission_t;

apr_status_t vl_slot_enter(vl_shm_t *shm, apr_uint32_t account,
                           vl_admission_t *ret_admission);

/* A connection with a lease goes on: one more slot of the account, above the
 * number of slots if need be. APR_EAGAIN: its concurrency or its CPU cap is
 * reached. stream: it is worked on by a thread of mod_http2's, none of the
 * MPM's. */
apr_status_t vl_slot_resume(vl_shm_t *shm, apr_uint32_t account, int stream,
                            vl_ticket_t *ret_ticket);
/* What a request of the account is expected to cost, us of CPU time. */
apr_uint32_t vl_slot_estimate(const vl_shm_t *shm, apr_uint32_t account);
/* Requests and connections of the account that are queued now, in all children. */
apr_uint32_t vl_slot_queued(const vl_shm_t *shm, apr_uint32_t account);

/* Somebody who waited is refused: ret_admission's decision is counted, and the
 * rest filled in. */
void vl_slot_refused(vl_shm_t *shm, apr_uint32_t account,
                     vl_admission_t *ret_admission);

/* A connection is refused without a request: counted, and the account is charged
 * cost_us.  reset: it is closed without an answer.  ret_admission: as above; may
 * be NULL. */
void vl_slot_refused_connection(vl_shm_t *shm, apr_uint32_t account,
                                apr_uint32_t cost_us, int reset,
                                vl_admission_t *ret_admission);
/* The client of a connection of the account has gone while it waited. */
void vl_slot_gone(vl_shm_t *shm, apr_uint32_t account);

/* A request begins on adm->ticket after wait_us; the rest is filled in. */
void vl_slot_begin(vl_shm_t *shm, apr_uint64_t wait_us, vl_admission_t *adm);

/* cost NULL: the slot was not used. Returns what the account was charged for it,
 * us of CPU time. */
apr_uint64_t vl_slot_end(vl_shm_t *shm, const vl_ticket_t *ticket,
                 const vl_cost_t *cost);

/* The same, and takes up to `most` grants of this child, whoever gave them: one
 * acquisition of the lock less than vl_slot_take(). Returns how many. */
apr_uint32_t vl_slot_end_and_take(vl_shm_t *shm, const vl_ticket_t *ticket,
                                  const vl_cost_t *cost,
                                  apr_uint64_t *ret_charged,
                                  vl_ticket_t *ret_tickets, apr_uint32_t most);

/* The slot's request waits for its client: the slot is free, and the account is
 * charged us for what the request has used since it was last charged. */
void vl_slot_pause(vl_shm_t *shm, const vl_ticket_t *ticket, apr_uint64_t us);
/* It goes on, in a slot above the number of slots and the account's own limits if
 * need be. */
void vl_slot_go_on(vl_shm_t *shm, vl_ticket_t *ticket);

/* Grants what is free, after slots have come back or a child can be granted
 * some again.  Parent or child. */
void vl_slot_dispatch(vl_shm_t *shm);

/* Slots the server has in all; 0: as many as vl_auto.h finds, from now on. */
void vl_slot_set(vl_shm_t *shm, apr_uint32_t slots);
/* It has a cap, so its turn may come with time alone. */
int vl_slot_capped(const vl_shm_t *shm, apr_uint32_t account);
/* As many may wait as it says; 0: nobody. */
apr_uint32_t vl_slot_queue(const vl_shm_t *shm, apr_uint32_t account);
apr_uint32_t vl_slot_count(const vl_shm_t *shm);
/* To be called now and then in every child: one of them does a step of
 * vl_auto.h when it is due, and measures what other processes use. */
void vl_slot_adjust(vl_shm_t *shm, apr_int64_t now_us);

#endif
