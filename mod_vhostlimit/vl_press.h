/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PRESS_H
#define VL_PRESS_H

/* Requests that the MPM has read wait with its threads (vl_park_sit()), and those
 * of one account may be all that are left.  As long as requests end that is well:
 * whoever waits as a socket gets the thread of the next.  When they hang it is not,
 * and then who waits gives his thread away: longest-queue-drop. */

#include "vl_room.h"

/* Ten times a second, in each child that accepts; rooms as of now. */
void vl_press_tick(vl_shm_t *shm, const vl_rooms_t *rooms, apr_int64_t now_us);

#endif
