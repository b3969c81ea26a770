/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_AUTO_H
#define VL_AUTO_H

/* VhostLimitSlots auto: the smallest number of slots that keeps the processors busy.
 * CPU-bound work needs few slots. Work that waits for a back end needs more, which shows as
 * idle time while requests wait. The same samples say how much CPU time other
 * processes use (vl_charge.c). While a quota of CPU time stops the server, the processors count
 * as busy: more slots would get no more CPU time.
 *
 * While most requests are streams of HTTP/2 and use no back end, the number may fall further
 * (vl_capacity.h).
 *
 * This file owns head.auto_state, head.streams_more, head.mostly_streams, and the last
 * sample (head.cpu, head.cpu_at, head.quota_stops, head.backlog_us and each child's cpu_us). Only
 * the child that advances cpu_at performs the step. vl_auto_step() is pure.
 * vl_auto_adjust() takes the segment lock, and reads /proc without it. Every child calls it
 * from its timer. */

#include "core/vl_shm.h"

/* Time between samples. */
#define VL_AUTO_STEP_US (200 * 1000)

typedef struct vl_auto_t {
    apr_uint32_t floor;         /* fewer slots than this left processors idle ... */
    apr_uint32_t hold;          /* ... and are not tried for this many steps */
    apr_uint32_t hold_last;     /* the number of steps of the last time; 0: none since the
                                 * fewest slots kept the processors busy */
} vl_auto_t;

typedef struct vl_auto_sample_t {
    apr_uint32_t slots;         /* current number */
    apr_uint32_t min, max;
    apr_uint32_t running;
    /* Since the last step: busy time of the processors that the server may use, and time in
     * which a request waited. */
    apr_uint32_t busy_permille, backlog_permille;
} vl_auto_sample_t;

/* Performs one step. Returns the new number of slots. */
apr_uint32_t vl_auto_step(vl_auto_t *state, const vl_auto_sample_t *sample);

/* Counts a request that begins. Takes no lock. */
void vl_auto_count_request(vl_shm_t *shm, int is_stream);

/* Performs a step when it is due, and measures the CPU time that other processes use. One
 * of the children performs each step. */
void vl_auto_adjust(vl_shm_t *shm, apr_int64_t now_us);

#endif
