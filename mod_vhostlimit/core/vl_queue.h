/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_QUEUE_H
#define VL_QUEUE_H

/* The fair queue between accounts: start-time fair queueing with depth D,
 * SFQ(D) (Goyal, Vin, Cheng 1996; Jin, Chase, Kaur 2004, for storage).
 *
 * Who waits is the caller's business; here a flow (an account) only has a
 * number waiting, a number running and a virtual time.  Pure: no lock, no
 * clock, no memory of its own.  Head, flows and heap may lie in memory that
 * other processes share; the view holds this process's pointers to them.
 *
 * Virtual time is service received, divided by weight: cost * VL_VT_UNIT /
 * weight.  The cost of a request is known when it ends, so its flow is charged
 * an estimate (a moving average) on leaving the queue and the difference at
 * the end. */

#include <apr.h>

#define VL_WEIGHT_DEFAULT 100
#define VL_WEIGHT_MAX 10000
/* Virtual time of 1 us at weight 1; fine enough that a cheap request of the
 * heaviest flow still counts. */
#define VL_VT_UNIT 65536

#define VL_NO_FLOW ((apr_uint32_t)-1)

typedef struct vl_flow_t {
    apr_uint64_t vt;            /* start tag of its next request */
    apr_uint32_t weight;        /* 1 to VL_WEIGHT_MAX */
    apr_uint32_t concurrency;   /* most running, 0 = no limit */
    apr_uint32_t cap;           /* % of one processor, 0 = no cap */
    apr_int64_t credit_us;      /* what the cap leaves it; below 0: debt */
    apr_uint32_t waiting;
    apr_uint32_t running;       /* let in, not yet done */
    apr_uint32_t estimate_us;   /* of a request's cost; at least 1 */
    apr_uint32_t place;         /* 1 + index in the heap; 0: not in it */
} vl_flow_t;

typedef struct vl_queue_head_t {
    apr_uint64_t vt;            /* start tag last let in */
    apr_uint32_t slots;         /* D: most running in all */
    apr_uint32_t running;
    apr_uint32_t waiting;
    apr_uint32_t heap_len;
} vl_queue_head_t;

typedef struct vl_queue_t {
    vl_queue_head_t *head;
    vl_flow_t *flows;
    apr_uint32_t *heap;         /* numbers of flows; room for all of them */
} vl_queue_t;

/* weight and concurrency of a flow may change at any time. */
void vl_queue_flow_set(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t weight,
                       apr_uint32_t concurrency);

/* A flow with a cap lives on credit: what it costs is taken from it, and it is
 * granted nothing while there is none (a token bucket).  The credit grows by
 * the cap's part of the time that passes, up to VL_CREDIT_US of it. */
#define VL_CREDIT_US 200000
/* % of one processor; 0: none. */
void vl_queue_cap(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t percent);
/* Its debt is forgotten: it was guessed. */
void vl_queue_forgive(vl_queue_t *q, apr_uint32_t flow);
void vl_queue_credit(vl_queue_t *q, apr_uint32_t flow, apr_uint64_t passed_us);

/* A refund leaves a flow at most so much behind the others, us of CPU time: what
 * it was charged too much long ago does not stop them now. */
#define VL_REFUND_US 1000000
/* What the flow has cost besides its requests' own cost; below 0: less. */
void vl_queue_charge(vl_queue_t *q, apr_uint32_t flow, apr_int64_t us);

/* One request comes, n requests leave without having been let in. */
void vl_queue_arrive(vl_queue_t *q, apr_uint32_t flow);
void vl_queue_abandon(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t n);

/* The flow whose turn it is: of those with somebody waiting, room under their
 * concurrency and credit under their cap the one with the least virtual time.  VL_NO_FLOW: nobody,
 * or no slot is free. */
apr_uint32_t vl_queue_next(const vl_queue_t *q);

/* The same among the flows for which can_serve(data, flow) holds. */
typedef int (*vl_queue_filter_fn)(void *data, apr_uint32_t flow);
apr_uint32_t vl_queue_next_where(vl_queue_t *q, vl_queue_filter_fn can_serve,
                                 void *data);

/* 1: one that does not wait may begin: a slot is free, the flow's bounds let it,
 * and it is nobody else's turn. */
int vl_queue_may_begin_now(const vl_queue_t *q, apr_uint32_t flow);

/* 1: the flow's own bounds (concurrency, cap) let one more run, whether or not
 * a slot is free. */
int vl_queue_is_within_bounds(const vl_queue_t *q, apr_uint32_t flow);

/* One of the flow's waiting requests begins.  Returns what was charged, us. */
apr_uint32_t vl_queue_begin(vl_queue_t *q, apr_uint32_t flow);

/* One that did not wait begins, slot or not.  Returns what was charged, us. */
apr_uint32_t vl_queue_begin_now(vl_queue_t *q, apr_uint32_t flow);

/* A request is done: it was charged `charged` us and cost `cost`. */
void vl_queue_end(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t charged,
                  apr_uint64_t cost);

/* A request that was let in did not come: its charge is taken back. */
void vl_queue_cancel(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t charged);

/* n requests end of which no cost is known: their child died. */
void vl_queue_forget(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t n);

/* The flow with most waiting per weight, whose newest goes first when room is
 * short (longest-queue-drop); VL_NO_FLOW: nobody waits.  O(flows waiting). */
apr_uint32_t vl_queue_longest(const vl_queue_t *q, apr_uint32_t flows);

/* NULL, or which invariant does not hold.  For tests. */
const char *vl_queue_validate(const vl_queue_t *q, apr_uint32_t flows);

#endif
