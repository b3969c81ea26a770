/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_auto.h"

/* More than this idle while somebody waits: too few slots.  Less than that:
 * perhaps too many.  In between lies what a clock of 10 ms ticks cannot tell. */
#define IDLE_GROW 80
#define IDLE_SHRINK 20
/* Steps during which a number of slots that proved too small is not tried. */
#define HOLD_STEPS 50

static apr_uint32_t clamp(apr_uint32_t n, apr_uint32_t min, apr_uint32_t max)
{
    if (n > max)
        n = max;
    return n < min ? min : n;
}

apr_uint32_t vl_auto_step(vl_auto_t *state, const vl_auto_sample_t *s)
{
    /* One who is alone leaves a fifth (vl_admit_more()). */
    apr_uint32_t idle = s->busy_permille < 1000 ? 1000 - s->busy_permille : 0;
    apr_uint32_t slots = s->slots, least = s->min;

    if (state->hold)
        state->hold--;
    if (s->waiting && s->running + s->running / 4 + 1 >= slots
        && idle > IDLE_GROW) {
        /* Half as many again: from 8 to 100 in 1.4 s. */
        state->floor = slots + slots / 8 + 1;
        state->hold = HOLD_STEPS;
        slots += slots / 2 + 1;
    }
    else if (idle < IDLE_SHRINK) {
        if (state->hold && state->floor > least)
            least = state->floor;
        slots -= slots / 8;
        if (slots < least)
            slots = least < s->slots ? least : s->slots;
    }
    return clamp(slots, s->min, s->max);
}
