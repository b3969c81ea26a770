/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_METER_H
#define VL_METER_H

/* What requests cost while they are worked on: long ones are charged as they go
 * and not at their end.  One list per child, of all that is being worked on in
 * it; the request embeds its meter.
 *
 * A request whose thread waits for its client is paused: it holds no slot and is
 * charged nothing until it goes on. */

#include <time.h>

#include <apr_ring.h>

#include "core/vl_slot.h"

/* So many more requests of the account wait (by: 1 or -1), for a back end or for their
 * clients. */
typedef void vl_meter_waits_fn(apr_uint32_t account, int by);

typedef struct vl_meter_t {
    APR_RING_ENTRY(vl_meter_t) link;
    vl_ticket_t *ticket;            /* its slot */
    vl_meter_waits_fn *waits;       /* or NULL */
    clockid_t clock;                /* of the thread that works on it */
    apr_int64_t thread_from;        /* what that clock showed at the start, us */
    int elsewhere;
    int grouped;                    /* ... in the account's group */
    apr_uint64_t elsewhere_from;    /* see vl_charge_elsewhere() */
    apr_uint64_t paid_us;           /* charged so far */
    apr_int64_t waits_us;           /* since when its thread may have waited for
                                     * the client; 0: it works; -1: it is paused;
                                     * atomic */
    apr_int64_t paused_since_us;
    apr_int64_t paused_us;          /* in all, before that */
    apr_uint64_t elsewhere_us;      /* while it is paused: worked before, ... */
    apr_uint64_t elsewhere_done;    /* ... and for vl_charge_elsewhere_go_on() */
} vl_meter_t;

void vl_meter_child_init(vl_shm_t *shm);

/* The calling thread begins to work with the slot that the ticket stands for;
 * thread_from_us: its clock then. waits: may be NULL. */
void vl_meter_begin(vl_meter_t *meter, vl_ticket_t *ticket,
                    apr_int64_t thread_from_us, vl_meter_waits_fn *waits);
/* From now on a back end works on it too; grouped: one of which it is certain
 * that it is in the account's group. */
void vl_meter_elsewhere(vl_meter_t *meter, int grouped);
/* Its thread waits for the client from now on: it is paused. */
void vl_meter_pause(vl_meter_t *meter);
/* The calling thread may have to wait for the client: if it does, it is paused by
 * vl_meter_tick(). */
void vl_meter_may_wait(vl_meter_t *meter);
/* The thread works again. If it was paused, it gets a slot, above the number of
 * slots and the limits of its account if need be. */
void vl_meter_go_on(vl_meter_t *meter);
/* Fills in what a meter knows of the cost. It is not paused. */
void vl_meter_end(vl_meter_t *meter, vl_cost_t *cost);

/* To be called some ten times a second. */
void vl_meter_tick(apr_int64_t now_us);

/* The calling thread's CPU clock, us. */
apr_int64_t vl_meter_thread_us(void);

#endif
