/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_QUEUE_H
#define VL_QUEUE_H

/* The fair queue between accounts: start-time fair queueing (vl_fair.h) with depth D, SFQ(D)
 * (Jin, Chase, Kaur 2004, for storage).
 *
 * A flow (an account) only has a tag and a number of waiting and running requests. The caller
 * keeps the requests, and decides which may begin (vl_admit.h). Pure: no lock, no memory of its own, and no clock except
 * for the members backlog_us and ended_us. Head, flows and heap may be in memory that other
 * processes have at the same address. Lock: the caller's (the segment lock).
 *
 * Depth counts runnable work, unless the administrator has set it. A running request counts as
 * its flow's duty: the part of its time in which it wants a processor, as the sampler measures
 * it (vl_duty.h). A request that sleeps holds nearly no slot.
 *
 * The cost of a request is known only at its end. So its flow is charged an estimate (a
 * moving average) at the start and the difference at the end. */

#include "core/vl.h"
#include "core/vl_fair.h"

#define VL_WEIGHT_MAX 10000
#define VL_NO_FLOW ((apr_uint32_t)-1)

typedef struct vl_flow_t {
    vl_fair_t fair;             /* first member: the heap has pointers to it */
    vl_limits_t limits;         /* of which weight, concurrency and cpu matter here */
    vl_part_t part;             /* leased by vhostlimit-fleet */
    apr_int64_t served_us;      /* the sum of all that it was charged */
    apr_int64_t credit_us;      /* left under the cap; below 0: debt */
    apr_int64_t waiting_since_us;   /* when the first of its waiting requests arrived */
    apr_uint64_t backlog_us;    /* time in which a request waited, until then */
    apr_int64_t ended_us;       /* when one of its running requests last ended, or the first
                                 * of them began */
    apr_uint32_t waiting;
    apr_uint32_t running;       /* begun, not yet ended */
    apr_uint32_t asleep;        /* of these, for long: they hold no slot */
    apr_uint32_t idle;          /* of these, without a back end: no concurrency either */
    apr_uint32_t duty;          /* permille; 0: unknown, that of the head holds */
    apr_uint32_t load;          /* permille of a slot that its running requests hold */
    apr_uint32_t estimate_us;   /* estimated cost of a request; at least 1 */
    apr_uint32_t active_milli;  /* weight * 1000 while it is active; 0: it is not */
} vl_flow_t;

typedef struct vl_queue_head_t {
    apr_uint64_t vtime;         /* tag of the last flow that began a request */
    vl_fair_heap_t heap;        /* of flows */
    apr_uint32_t slots;         /* D: most runnable requests in all flows */
    apr_uint32_t running;
    int by_duty;                /* 1: slots count runnable work; 0: requests, and they are
                                 * never exceeded */
    apr_uint32_t duty;          /* average of all flows, permille; 0: unknown */
    apr_uint32_t heaviest;      /* 1 + the flow with the most load for its weight, as far as
                                 * known; 0: none */
    apr_uint32_t ahead;         /* 1 + the running flow with the latest tag, as far as known; 0: none */
    apr_uint64_t load;          /* the sum of the flows', permille of a slot */
    apr_uint32_t waiting;
    apr_uint32_t active;        /* flows with a waiting or running request */
    apr_uint64_t active_milli;  /* the sum of their weights * 1000 */
} vl_queue_head_t;

typedef struct vl_queue_t {
    vl_queue_head_t *head;
    vl_flow_t *flows;
} vl_queue_t;

/* Sets the limits of a flow. They may change at any time. */
void vl_queue_limit(vl_queue_t *q, apr_uint32_t flow, const vl_limits_t *limits);

/* Sets what vhostlimit-fleet leases to the flow. A change of the cap adds no credit. */
void vl_queue_lease(vl_queue_t *q, apr_uint32_t flow, const vl_part_t *part);
/* Returns the limits that hold: the part's concurrency in place of a larger one. */
vl_limits_t vl_queue_limits(const vl_queue_t *q, apr_uint32_t flow);
/* Returns 1 if the flow has a cap of CPU time. */
int vl_queue_is_capped(const vl_queue_t *q, apr_uint32_t flow);
/* Returns the time in which a request of the flow waited, us. */
apr_uint64_t vl_queue_backlog(const vl_queue_t *q, apr_uint32_t flow, apr_int64_t now_us);

/* A flow with a cap (limits.cpu, part.cpu_permille) has a token bucket of credit. Its cost
 * is taken from the credit, and it is granted nothing without credit. The credit grows by the
 * cap's fraction of the time that passes, up to that fraction of VL_CREDIT_US. */
#define VL_CREDIT_US 200000
/* Adds the credit for passed_us of time. */
void vl_queue_credit(vl_queue_t *q, apr_uint32_t flow, apr_uint64_t passed_us);

/* A refund leaves a flow at most this far behind the virtual time of the others, us of CPU
 * time. So an overcharge of long ago does not block the others now. */
#define VL_REFUND_US 1000000
/* Charges the flow a cost beyond its requests' own cost, us. Below 0: a refund. */
void vl_queue_charge(vl_queue_t *q, apr_uint32_t flow, apr_int64_t us);

/* One request arrives; n requests leave without having begun. */
void vl_queue_arrive(vl_queue_t *q, apr_uint32_t flow);
void vl_queue_abandon(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t n);

/* Sets what the sampler has found out about the flow's running requests. duty: 0 or
 * VL_DUTY_MIN to 1000. asleep: requests that have wanted no processor for long. idle: those
 * of them that wait for no back end. */
void vl_queue_set_duty(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t duty,
                       apr_uint32_t asleep, apr_uint32_t idle);
/* A flow of sleeping requests may have this many permille of a slot for each of them at
 * least, so that a flow that begins to compute has a bounded number of requests running. */
#define VL_DUTY_MIN 20

/* Returns the duty that a request of the flow counts with, permille. */
apr_uint32_t vl_queue_duty(const vl_queue_t *q, apr_uint32_t flow);
/* Returns how many thousandths of a slot are free. */
apr_uint32_t vl_queue_free(const vl_queue_t *q);

/* What decides whether a flow may hold one more slot (vl_admit_slot()). Slots are in thousandths. */
typedef struct vl_standing_t {
    apr_uint32_t duty, weight;      /* of the flow; the weight in thousandths */
    apr_uint32_t left;              /* free slots */
    const vl_flow_t *heaviest;      /* the flow with the most load for its weight, or NULL */
    apr_uint32_t heaviest_duty, heaviest_weight;
    apr_int64_t behind;             /* by how much the flow's tag is before that of the flow ahead */
} vl_standing_t;

vl_standing_t vl_queue_standing(const vl_queue_t *q, apr_uint32_t flow);

/* Returns the next flow: the one with the least tag among those that have a waiting request,
 * run less than their concurrency and have credit under their cap, and for which
 * can_serve(data, flow) returns non-zero. Returns VL_NO_FLOW if there is none. Asks a few flows
 * only, because the caller holds a lock. */
typedef int (*vl_queue_filter_fn)(void *data, apr_uint32_t flow);
apr_uint32_t vl_queue_next_where(vl_queue_t *q, vl_queue_filter_fn can_serve,
                                 void *data);

/* Returns 1 if the flow's own limits (concurrency, cap) allow one more running request,
 * whether or not a slot is free. */
int vl_queue_is_within_bounds(const vl_queue_t *q, apr_uint32_t flow);

/* One of the flow's waiting requests begins. Returns the cost charged, us. */
apr_uint32_t vl_queue_begin(vl_queue_t *q, apr_uint32_t flow);

/* A request that did not wait begins, even if no slot is free. Returns the cost charged,
 * us. */
apr_uint32_t vl_queue_begin_now(vl_queue_t *q, apr_uint32_t flow);

/* A request ends: it was charged `charged` us and its cost was `cost` us. */
void vl_queue_end(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t charged,
                  apr_uint64_t cost);

/* A request that began was not executed: its charge is refunded. */
void vl_queue_cancel(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t charged);

/* n requests end without a known cost, because their child died. */
void vl_queue_forget(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t n);

#endif
