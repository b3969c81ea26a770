/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_AUTO_H
#define VL_AUTO_H

/* VhostLimitSlots auto: the smallest number of slots that keeps the processors busy.
 * CPU-bound work needs few slots. Work that waits for a back end needs more, which shows as
 * idle time while requests are queued. Pure: one step per sample. Lock: the caller's. */

#include <apr.h>

/* Time between samples. */
#define VL_AUTO_STEP_US (200 * 1000)
/* Fewest slots for each processor. */
#define VL_AUTO_MIN_PER_CPU 8

typedef struct vl_auto_t {
    apr_uint32_t floor;         /* fewer slots than this left processors idle ... */
    apr_uint32_t hold;          /* ... and are not tried for this many steps */
} vl_auto_t;

typedef struct vl_auto_sample_t {
    apr_uint32_t slots;         /* current number */
    apr_uint32_t min, max;
    apr_uint32_t running, waiting;
    apr_uint32_t busy_permille; /* busy time of the processors that the server may use,
                                 * since the last step */
} vl_auto_sample_t;

/* Performs one step. Returns the new number of slots. */
apr_uint32_t vl_auto_step(vl_auto_t *state, const vl_auto_sample_t *sample);

#endif
