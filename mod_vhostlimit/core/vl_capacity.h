/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CAPACITY_H
#define VL_CAPACITY_H

/* Capacity of child processes: the threads that are free, and the capacity threshold of one
 * account, which keeps some of them for other accounts. The state is in the segment
 * (vl_segment.h), which also declares the functions for use within the core. Lock: the
 * segment lock. */

#include "core/vl_shm.h"

/* Free capacity of this child (here) and of the other children together (elsewhere),
 * without the threads that each child reserves for accounts that hold none
 * (vl_admit_more()). ended: requests that have ended in this child. */
typedef struct vl_capacity_t {
    apr_uint32_t here, elsewhere;
    apr_uint32_t ended;             /* wraps around */
} vl_capacity_t;

/* Fills in *ret_capacity. Takes the segment lock. Not used under prefork. */
void vl_capacity_count(vl_shm_t *shm, vl_capacity_t *ret_capacity);

#endif
