/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_QUEUE_H
#define VL_QUEUE_H

/* The fair queue between accounts: start-time fair queueing with depth D, SFQ(D) (Goyal,
 * Vin, Cheng 1996; Jin, Chase, Kaur 2004, for storage).
 *
 * A flow (an account) only has a number of waiting and running requests and a virtual time.
 * The caller keeps the requests. Pure: no lock, no memory of its own, and no clock except
 * for the members backlog_us and ended_us. Head, flows and heap may be in memory that other
 * processes share; the view (vl_queue_t) holds this process's pointers to them. Lock: the
 * caller's (the segment lock).
 *
 * Depth counts runnable work, unless the administrator has set it. A running request counts as
 * its flow's duty: the part of its time in which it wants a processor, as the sampler measures
 * it (vl_duty.h). A request that sleeps holds nearly no slot.
 *
 * Virtual time is service received, divided by weight: cost * VL_VT_UNIT / weight. The cost
 * of a request is known only at its end. So its flow is charged an estimate (a moving
 * average) at the start and the difference at the end. */

#include "core/vl.h"

#define VL_WEIGHT_MAX 10000
/* Virtual time of 1 us at weight 1. Fine enough that a cheap request of the flow with the
 * largest weight still counts. */
#define VL_VT_UNIT 65536

#define VL_NO_FLOW ((apr_uint32_t)-1)

typedef struct vl_flow_t {
    apr_uint64_t vt;            /* start tag of its next request */
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
    apr_uint32_t heap_pos;      /* 1 + index in the heap; 0: not in the heap */
    apr_uint32_t active_milli;  /* weight * 1000 while it is active; 0: it is not */
} vl_flow_t;

typedef struct vl_queue_head_t {
    apr_uint64_t vt;            /* start tag of the last request that began */
    apr_uint32_t slots;         /* D: most runnable requests in all flows */
    apr_uint32_t running;
    int by_duty;                /* 1: slots count runnable work; 0: requests, and they are
                                 * never exceeded */
    apr_uint32_t duty;          /* average of all flows, permille; 0: unknown */
    apr_uint32_t heaviest;      /* 1 + the flow with the most load for its weight, as far as
                                 * known; 0: none */
    apr_uint64_t load;          /* the sum of the flows', permille of a slot */
    apr_uint32_t waiting;
    apr_uint32_t heap_len;
    apr_uint32_t active;        /* flows with a waiting or running request */
    apr_uint64_t active_milli;  /* the sum of their weights * 1000 */
} vl_queue_head_t;

typedef struct vl_queue_t {
    vl_queue_head_t *head;
    vl_flow_t *flows;
    apr_uint32_t *heap;         /* numbers of flows; as long as flows */
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
#define VL_DUTY_SLEEPS_LONG 250
/* Returns 1 if the flow's duty is at most VL_DUTY_SLEEPS_LONG, and its load for its weight, with
 * one more request, is well below the heaviest flow's. */
int vl_queue_is_light(const vl_queue_t *q, apr_uint32_t flow);
/* Requests of a flow sleep for part of their time if its duty is at most this, permille. What
 * they hold of a slot is an average: at this moment all may be asleep, or none. */
#define VL_DUTY_SLEEPS 600
/* A flow is owed CPU time if it is this far behind. Back ends are charged ten times a second, so less
 * may be time that was not charged yet. */
#define VL_OWED_US 150000
/* Returns 1 if the flow may begin a request though others hold the slots. is_first: no other
 * flow is due before it.
 *   - The heaviest flow's requests sleep, and this flow's load is within its weight's part of
 *     the slots. Processors would be idle otherwise while requests wait.
 *   - This flow is first, and its requests sleep. The kernel divides the processors by what is
 *     awake at the moment, so its load has to be above its part for it to get its share: up to
 *     four fifths of the slots, whatever others hold. */
int vl_queue_has_own(const vl_queue_t *q, apr_uint32_t flow, int is_first);
/* Returns 1 if the flow may have more than the slots, or those that are kept free: the heaviest
 * flow has kept its own for long and this flow's load is well below. Slots are not taken back. So
 * long requests would otherwise keep the processors that they got while no other flow wanted
 * them. */
int vl_queue_may_exceed(const vl_queue_t *q, apr_uint32_t flow);
/* Returns 1 if a request of the flow may begin as far as slots are concerned. */
int vl_queue_has_slot(const vl_queue_t *q, apr_uint32_t flow);
/* The heaviest flow has kept its slots for long if each of its requests runs for longer: the time
 * since one of them ended, times their number. */
#define VL_KEPT_US 50000

/* Returns the next flow: the one with the least virtual time among those that have a
 * waiting request, run less than their concurrency and have credit under their cap. Returns
 * VL_NO_FLOW if there is none, or if it has no slot (vl_queue_has_slot()). */
apr_uint32_t vl_queue_next(const vl_queue_t *q);

/* The same among the flows for which can_serve(data, flow) returns non-zero, which also
 * decides about slots. Asks a few flows only, because the caller holds a lock. */
typedef int (*vl_queue_filter_fn)(void *data, apr_uint32_t flow);
apr_uint32_t vl_queue_next_where(vl_queue_t *q, vl_queue_filter_fn can_serve,
                                 void *data);

/* Returns 1 if a request that is not waiting may begin: a slot is free, the flow's own
 * limits allow it, and no other flow is eligible. */
int vl_queue_may_begin_now(const vl_queue_t *q, apr_uint32_t flow);

/* Returns 1 if the flow's own limits (concurrency, cap) allow one more running request,
 * whether or not a slot is free. */
int vl_queue_is_within_bounds(const vl_queue_t *q, apr_uint32_t flow);

/* Returns 1 if a flow that holds `held` units of a resource may take one more while `left`
 * units are free: vl_admit_more_weighted() with the weights of the active flows. */
int vl_queue_may_take(const vl_queue_t *q, apr_uint32_t flow, apr_uint32_t held,
                      apr_uint32_t left);

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

/* Returns NULL, or the first invariant that does not hold. For tests. */
const char *vl_queue_validate(const vl_queue_t *q, apr_uint32_t flows);

#endif
