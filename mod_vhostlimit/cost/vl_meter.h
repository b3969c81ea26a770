/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_METER_H
#define VL_METER_H

/*
 * Charges requests while they run, so that a long request is not charged only at its end, and
 * enters them into the table that the sampler reads (core/vl_duty.h). The file owns one list
 * per child of the meters of all running requests; a request embeds its meter. A paused
 * request's thread waits for its client: the request holds no slot until it continues.
 * Back ends are charged by the sampler (vl_sampler.h), not here.
 * The functions take the list's lock themselves.
 * A meter's own thread calls the functions, and the acceptor calls vl_meter_tick().
 */

#include <time.h>

#include <apr_ring.h>

#include "core/vl_duty.h"
#include "core/vl_slot.h"

/* Called when one more (by: 1) or one fewer (by: -1) request of the account may keep its
 * thread for long, or waits for its client. */
typedef void vl_meter_waits_fn(apr_uint32_t account, int by);

typedef struct vl_meter_t {
    APR_RING_ENTRY(vl_meter_t) link;
    vl_ticket_t *ticket;            /* the request's slot */
    vl_meter_waits_fn *waits;       /* may be NULL */
    clockid_t clock;                /* of the request's thread */
    apr_int64_t thread_from;        /* reading of that clock at the start, us */
    apr_uint32_t key;               /* see vl_meter_begin() */
    apr_uint64_t charged_us;        /* charged so far */
    int may_last;                   /* see vl_meter_may_last() */
    apr_uint32_t task;              /* entry of the table of tasks; VL_TASKS_MAX: none */
    apr_int64_t waits_us;           /* when its thread began a write that may block; 0:
                                     * it works; -1: it is paused; atomic */
    apr_int64_t paused_since_us;
    apr_int64_t paused_us;          /* sum of earlier pauses */
} vl_meter_t;

/* Child, before its threads start. */
void vl_meter_child_init(vl_shm_t *shm);

/* Returns an entry of the table of tasks for requests of the calling thread, or NULL, and gives it
 * back. */
task_t *vl_meter_take_task(void);
void vl_meter_give_task(const task_t *task);

/* The calling thread begins a request that holds the slot of this ticket.
 * thread_from_us: the thread's CPU clock at the start. client_fd: the client's socket, or
 * -1. key: of the connection of a client on this machine (vl_own.h), else 0. waits: may be NULL. */
void vl_meter_begin(vl_meter_t *meter, vl_ticket_t *ticket, apr_int64_t thread_from_us,
                    int client_fd, apr_uint32_t key, vl_meter_waits_fn *waits);
/* The request may keep its thread for long, because a handler works on it that may wait for
 * something. */
void vl_meter_may_last(vl_meter_t *meter);
/* The thread waits for the client from now on: pauses the request. */
void vl_meter_pause(vl_meter_t *meter);
/* The calling thread may block on the client. If that takes long, vl_meter_tick() pauses the
 * request. */
void vl_meter_may_wait(vl_meter_t *meter);
/* The thread works again. A paused request takes a slot, above the number of slots and
 * the limits of its account if necessary. */
void vl_meter_go_on(vl_meter_t *meter);
/* Ends the meter and fills in its part of *cost. The request must not be paused. */
void vl_meter_end(vl_meter_t *meter, vl_cost_t *cost);

/* The acceptor calls this about ten times a second: charges long requests and pauses
 * streams whose client does not read. */
void vl_meter_tick(apr_int64_t now_us);

/* Returns a CPU clock, us, and that of the calling thread. */
apr_int64_t vl_meter_clock_us(clockid_t clock);
apr_int64_t vl_meter_thread_us(void);

#endif
