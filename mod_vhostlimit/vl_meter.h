/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_METER_H
#define VL_METER_H

/* What requests cost while they are worked on: long ones are charged as they go
 * and not at their end.  One list per child, of all that is being worked on in
 * it; the request embeds its meter. */

#include <time.h>

#include <apr_ring.h>

#include "vl_slot.h"

typedef struct vl_meter_t {
    APR_RING_ENTRY(vl_meter_t) link;
    apr_uint32_t account;
    clockid_t clock;                /* of the thread that works on it */
    apr_int64_t thread_from;        /* what that clock showed at the start, us */
    int elsewhere;
    int grouped;                    /* ... in the account's group */
    apr_uint64_t elsewhere_from;    /* see vl_charge_elsewhere() */
    apr_uint64_t paid_us;           /* charged so far */
} vl_meter_t;

void vl_meter_child_init(vl_shm_t *shm);

/* The calling thread begins to work; thread_from_us: its clock then. */
void vl_meter_begin(vl_meter_t *meter, apr_uint32_t account,
                    apr_int64_t thread_from_us);
/* From now on a back end works on it too; grouped: one of which it is certain
 * that it is in the account's group. */
void vl_meter_elsewhere(vl_meter_t *meter, int grouped);
/* Fills in what a meter knows of the cost. */
void vl_meter_end(vl_meter_t *meter, vl_cost_t *cost);

/* To be called some ten times a second. */
void vl_meter_tick(void);

/* The calling thread's CPU clock, us. */
apr_int64_t vl_meter_thread_us(void);

#endif
