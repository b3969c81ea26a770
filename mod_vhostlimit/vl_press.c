/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_press.h"

#include <apr_time.h>

#include "vl_park.h"
#include "vl_seat.h"

/* Nothing has ended for so long: what runs hangs. */
#define HANG_US (1 * APR_USEC_PER_SEC)
/* The child stays pressed for so long after that, lest each thread that has been
 * given away is taken by the next of those who hang. */
#define PRESSED_US (10 * APR_USEC_PER_SEC)

static struct {
    apr_uint32_t ended;             /* vl_rooms_t's, at the last tick */
    apr_int64_t since_us;           /* there is no room, and nothing ends */
    apr_int64_t until_us;           /* pressed */
} press;

void vl_press_tick(vl_shm_t *shm, const vl_rooms_t *rooms, apr_int64_t now_us)
{
    int full = !rooms->here && !rooms->elsewhere;

    if (!full || rooms->ended != press.ended)
        press.since_us = now_us;
    press.ended = rooms->ended;
    if (now_us - press.since_us >= HANG_US && vl_park_socket_waits())
        press.until_us = now_us + PRESSED_US;
    vl_seat_press(shm, now_us < press.until_us);
    if (full && now_us < press.until_us) {
        vl_park_drop_sitter();
        vl_seat_drop_one(shm);
    }
}
