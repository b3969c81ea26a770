/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ROOM_H
#define VL_ROOM_H

/* What a child has room for: its threads, and of them those that an account may
 * have so that some are left for others. */

#include "core/vl_shm.h"

/* How many more this child and the others have threads for, besides those that
 * each keeps for who has none (vl_admit_more()), and how many requests have ended
 * in this one so far. */
typedef struct vl_rooms_t {
    apr_uint32_t here, elsewhere;
    apr_uint32_t ended;             /* wraps around */
} vl_rooms_t;

/* Not under prefork. */
void vl_room_count(vl_shm_t *shm, vl_rooms_t *ret_rooms);

#endif
