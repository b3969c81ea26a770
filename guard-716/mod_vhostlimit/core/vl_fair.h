/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_FAIR_H
#define VL_FAIR_H

/* Start-time fair queueing (Goyal, Vin, Cheng 1996), for each level that shares: sites
 * (vl_queue.h), and inside a site its classes, known clients and clients (vl_inside.h).
 *
 * Each member of a level has a tag: the service that it has received, divided by its weight.
 * The member with the least tag is next. A level has a virtual time, `vtime`, which is at least
 * the tag of the last member that was next. A member that was idle joins at that time, so idle
 * time earns no service.
 *
 * Tags wrap around, so they are only compared by their signed difference, as in the kernel's
 * scheduler (time_after64()). Tags are read and written atomically, because those inside a site
 * have no lock. The heap has the caller's lock. */

#include <apr.h>

/* A tag grows by this much for each us of CPU time at weight 1. Fine enough that a cheap request
 * of the member with the largest weight still counts. */
#define VL_FAIR_UNIT 65536

/* A member of a level that has a heap. */
typedef struct vl_fair_t {
    apr_uint64_t tag;
    apr_uint64_t order;         /* of two with the same tag, the lower one is next */
    apr_uint32_t place;         /* 1 + index in the heap; 0: not in it */
} vl_fair_t;

/* A binary heap. The caller provides `at`, with room for all members. */
typedef struct vl_fair_heap_t {
    vl_fair_t **at;
    apr_uint32_t length;
} vl_fair_heap_t;

/* How far tag a is after b; below 0: before it. */
#define VL_FAIR_AFTER(a, b) ((apr_int64_t)((a) - (b)))
/* By how much us of CPU time advance a tag. */
#define VL_FAIR_ADVANCE(us, weight) ((apr_int64_t)(us) * VL_FAIR_UNIT / (apr_int64_t)(weight))

/* Makes the tag, or virtual time, at least this late. */
void vl_fair_raise(apr_uint64_t *tag, apr_uint64_t least);
/* Advances the tag, by < 0: takes it back, but not beyond the bound. */
void vl_fair_move(apr_uint64_t *tag, apr_int64_t by, apr_uint64_t bound);

/* Adds a member to the heap. If it is there already, restores the order after a change of its
 * tag. */
void vl_fair_add(vl_fair_heap_t *heap, vl_fair_t *member);
/* Removes the member if it is in the heap. */
void vl_fair_remove(vl_fair_heap_t *heap, vl_fair_t *member);

#endif
