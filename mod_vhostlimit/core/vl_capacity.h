/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CAPACITY_H
#define VL_CAPACITY_H

/* What a child has room for: its threads, and of them those that an account may
 * have so that some are left for others. */

#include "core/vl_shm.h"

/* How many more this child and the others have threads for, besides those that
 * each keeps for who has none (vl_admit_more()), and how many requests have ended
 * in this one so far. */
typedef struct vl_capacity_t {
    apr_uint32_t here, elsewhere;
    apr_uint32_t ended;             /* wraps around */
} vl_capacity_t;

/* Not under prefork. */
void vl_capacity_count(vl_shm_t *shm, vl_capacity_t *ret_rooms);

#endif
