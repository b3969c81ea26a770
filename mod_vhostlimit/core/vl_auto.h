/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_AUTO_H
#define VL_AUTO_H

/* VhostLimitSlots auto: as few slots as keep the processors busy.  Work that
 * burns CPU needs few; work that sleeps on a back end needs more, which shows
 * as idle time while requests wait.  Pure: one step per sample. */

#include <apr.h>

/* Time between samples. */
#define VL_AUTO_STEP_US (200 * 1000)
/* Fewest slots for each processor. */
#define VL_AUTO_MIN_PER_CPU 8

typedef struct vl_auto_t {
    apr_uint32_t floor;         /* fewer than these left processors idle ... */
    apr_uint32_t hold;          /* ... and are not tried for so many steps */
} vl_auto_t;

typedef struct vl_auto_sample_t {
    apr_uint32_t slots;         /* now */
    apr_uint32_t min, max;
    apr_uint32_t running, waiting;
    apr_uint32_t busy_permille; /* of the processors the server may use, since
                                 * the last step */
} vl_auto_sample_t;

/* Returns how many slots there should be from now on. */
apr_uint32_t vl_auto_step(vl_auto_t *state, const vl_auto_sample_t *sample);

#endif
