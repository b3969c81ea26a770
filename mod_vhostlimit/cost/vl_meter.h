/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_METER_H
#define VL_METER_H

/*
 * Charges requests while they run, so that a long request is not charged only at its end.
 * The file owns one list per child of the meters of all running requests; a request embeds
 * its meter. A paused request's thread waits for its client: the request holds no slot
 * and is charged nothing until it continues.
 * The functions take the list's lock themselves.
 * A meter's own thread calls the functions, and the acceptor calls vl_meter_tick().
 */

#include <time.h>

#include <apr_ring.h>

#include "core/vl_slot.h"

/* Called when one more (by: 1) or one fewer (by: -1) request of the account waits for a
 * back end or for its client. */
typedef void vl_meter_waits_fn(apr_uint32_t account, int by);

typedef struct vl_meter_t {
    APR_RING_ENTRY(vl_meter_t) link;
    vl_ticket_t *ticket;            /* the request's slot */
    vl_meter_waits_fn *waits;       /* may be NULL */
    clockid_t clock;                /* of the request's thread */
    apr_int64_t thread_from;        /* reading of that clock at the start, us */
    int elsewhere;                  /* a back end works on the request ... */
    int grouped;                    /* ... in the account's cgroup */
    apr_uint64_t elsewhere_from;    /* see vl_charge_elsewhere() */
    apr_uint64_t charged_us;        /* charged so far */
    apr_int64_t waits_us;           /* when its thread began a write that may block; 0:
                                     * it works; -1: it is paused; atomic */
    apr_uint64_t elsewhere_at_wait; /* the back ends' clock at waits_us */
    apr_int64_t paused_since_us;
    apr_int64_t paused_us;          /* sum of earlier pauses */
    apr_uint64_t elsewhere_us;      /* while paused: cost of the back end so far */
    apr_uint64_t elsewhere_done;    /* ... for vl_charge_elsewhere_go_on() */
} vl_meter_t;

/* Child, before its threads start. */
void vl_meter_child_init(vl_shm_t *shm);

/* The calling thread begins a request that holds the slot of this ticket.
 * thread_from_us: the thread's CPU clock at the start. waits: may be NULL. */
void vl_meter_begin(vl_meter_t *meter, vl_ticket_t *ticket,
                    apr_int64_t thread_from_us, vl_meter_waits_fn *waits);
/* A back end works on the request from now on. grouped: the back end is certain to be in
 * the account's cgroup. */
void vl_meter_elsewhere(vl_meter_t *meter, int grouped);
/* The thread waits for the client from now on: pauses the request. */
void vl_meter_pause(vl_meter_t *meter);
/* The calling thread may block on the client. The back end is not charged for that time. If
 * it is long, vl_meter_tick() pauses the request. */
void vl_meter_may_wait(vl_meter_t *meter);
/* The thread works again. A paused request takes a slot, above the number of slots and
 * the limits of its account if necessary. */
void vl_meter_go_on(vl_meter_t *meter);
/* Ends the meter and fills in its part of *cost. The request must not be paused. */
void vl_meter_end(vl_meter_t *meter, vl_cost_t *cost);

/* The acceptor calls this about ten times a second: charges long requests and pauses
 * streams whose client does not read. */
void vl_meter_tick(apr_int64_t now_us);

/* Returns the calling thread's CPU clock, us. */
apr_int64_t vl_meter_thread_us(void);

#endif
